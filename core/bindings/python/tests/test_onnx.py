"""ONNX's cases of nodes by ONNX's own runner. `BYOC_FAILING` is a file with the names of those that do not pass in byoc's own suite, one
a line: they must be the same here. `BYOC_SHARD` says which part of the cases is run, of how many: `1/1` is all of them."""

from __future__ import annotations

import os
import unittest
import warnings
from pathlib import Path

import onnx.backend.test

import byoc.onnx_backend as backend


RUNNERS = {
    # The outputs are equal. The runner takes the length of each element of a sequence, and one is a scalar.
    "test_loop16_seq_none",
}
"""What passes in our own suite only, because of how the runner compares."""


def plain(case: str) -> str:
    """The name that our own suite has for a test."""
    return case.rsplit(".", 1)[-1].removesuffix("_cpu")


def cases(part: int, parts: int) -> dict[str, unittest.TestCase]:
    """By name."""
    runner = onnx.backend.test.BackendTest(backend, __name__)
    classes = [case for name, case in runner.test_cases.items() if "Node" in name]
    names = [(case, name) for case in classes for name in unittest.defaultTestLoader.getTestCaseNames(case)]
    return {plain(name): case(name) for case, name in [pair for pair in names if pair[1].endswith("_cpu")][part - 1 :: parts]}


class Runner(unittest.TestCase):
    def test_the_same_cases_pass_as_in_our_own_suite(self) -> None:
        part, parts = map(int, os.environ["BYOC_SHARD"].split("/"))
        chosen = cases(part, parts)
        result = unittest.TestResult()
        with warnings.catch_warnings():
            # Of byoc, and of ONNX where it computes what is expected.
            warnings.simplefilter("ignore")
            unittest.TestSuite(chosen.values()).run(result)
        self.maxDiff = None
        failing = {plain(case.id()) for case, _ in result.failures + result.errors}
        expected = set(Path(os.environ["BYOC_FAILING"]).read_text().split()) & chosen.keys()
        self.assertEqual(result.skipped, [])
        self.assertGreater(result.testsRun, 1_800 // parts)
        self.assertEqual(failing - expected, RUNNERS & chosen.keys(), "these pass in our own suite only")
        self.assertEqual(expected - failing, set(), "these pass by the runner only")


if __name__ == "__main__":
    unittest.main()
