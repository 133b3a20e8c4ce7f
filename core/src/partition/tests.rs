//! What text tests (`tests/filetests/partition`) cannot show: that random graphs are cut as the plain rule cuts them.

mod greedy;
