"""Makes byoc's test data: `prepare.py OUT_DIR [--only NAME ...]`.

Each folder is made once; what is already there is left as it is. Delete OUT_DIR to start anew.
"""

import argparse
import os
import time
from pathlib import Path

# Trained models are the same on all x86-64 processors with AVX2 only if sums are taken in the same order: NumPy and OpenBLAS choose their
# loops by the processor when they are imported.
os.environ |= {
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}

from zoo import bert, classical, const_variants, control_flow, digits, exported_recurrent, exported_text, exported_vision, four_bits, free_sizes, functions, gpt2, gradients, kendryte, kendryte_qdq, light, microsoft, microsoft_quantised, mlp, mobilenet, node_cases, operators_quantised, optimised, quantised, seeded, sequences, suites, trained
from zoo.store import Task, make_folder, write_manifest


def all_tasks() -> list[Task]:
    """Gives every task, the quick ones first."""
    families = (light, node_cases, const_variants, mlp, mobilenet, seeded, kendryte, kendryte_qdq, digits, bert, gpt2, quantised, operators_quantised, four_bits, free_sizes, functions, gradients, control_flow, sequences, classical, microsoft, optimised, microsoft_quantised, suites, trained, exported_recurrent, exported_text, exported_vision)
    return [task for family in families for task in family.tasks()]


def chosen_tasks(only: list[str]) -> list[Task]:
    """Gives the tasks that the words of `--only` name, or all; stops at a word that names none."""
    tasks = all_tasks()
    for wanted in only:
        if not any(task.matches(wanted) for task in tasks):
            raise SystemExit(f"no test data is called {wanted}; there are: {' '.join(t.name for t in tasks)}")
    return [task for task in tasks if not only or any(map(task.matches, only))]


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="make only these: a folder (seeded/gpt2_small), a family (light) or a last part (gpt2_small)",
    )
    return parser.parse_args()


def main() -> None:
    """Makes what is missing, one line for each folder made, then the manifest."""
    arguments = parse_arguments()
    arguments.out_dir.mkdir(parents=True, exist_ok=True)
    for task in chosen_tasks(arguments.only):
        start = time.perf_counter()
        if make_folder(arguments.out_dir, task):
            print(f"{task.name} {time.perf_counter() - start:.1f} s", flush=True)
    write_manifest(arguments.out_dir, all_tasks())


if __name__ == "__main__":
    main()
