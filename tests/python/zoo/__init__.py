"""The models and cases of the test data, one module for each family."""
