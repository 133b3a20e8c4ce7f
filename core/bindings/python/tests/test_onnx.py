"""ONNX's cases of nodes, all of them, by ONNX's own runner. `BYOC_FAILING` is a file with the names of those that do not pass in byoc's
own suite, one a line: they must be the same here."""

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


def cases() -> unittest.TestSuite:
    runner = onnx.backend.test.BackendTest(backend, __name__)
    classes = [case for name, case in runner.test_cases.items() if "Node" in name]
    names = [(case, name) for case in classes for name in unittest.defaultTestLoader.getTestCaseNames(case)]
    return unittest.TestSuite(case(name) for case, name in names if name.endswith("_cpu"))


class Runner(unittest.TestCase):
    def test_the_same_cases_pass_as_in_our_own_suite(self) -> None:
        result = unittest.TestResult()
        with warnings.catch_warnings():
            # Of byoc, and of ONNX where it computes what is expected.
            warnings.simplefilter("ignore")
            cases().run(result)
        self.maxDiff = None
        failing = {case.id().rsplit(".", 1)[1].removesuffix("_cpu") for case, _ in result.failures + result.errors}
        expected = set(Path(os.environ["BYOC_FAILING"]).read_text().split())
        self.assertEqual(result.skipped, [])
        self.assertGreater(result.testsRun, 1_800)
        self.assertEqual(failing - expected, RUNNERS, "these pass in our own suite only")
        self.assertEqual(expected - failing, set(), "these pass by the runner only")


if __name__ == "__main__":
    unittest.main()
