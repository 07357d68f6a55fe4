"""The application: its commands in pipeline order."""

from __future__ import annotations

import typer

from quantflow.cli.compare import compare
from quantflow.cli.diagnose import diagnose
from quantflow.cli.doctor import doctor
from quantflow.cli.explain import explain
from quantflow.cli.export_om import export_om
from quantflow.cli.from_qdq import from_qdq
from quantflow.cli.init import init
from quantflow.cli.lint import lint
from quantflow.cli.production import profile, watch
from quantflow.cli.report_command import report
from quantflow.cli.run import run
from quantflow.cli.show import show
from quantflow.cli.stage_commands import stage_command

HELP = """From a float model to an INT8 model for Ascend NPUs, with the evidence that it holds up.

\b
Typical use:
  quantflow init --onnx model.onnx    write quantflow.toml, then edit it
  quantflow doctor                    what is missing, before long work
  quantflow run --limit 8             a quick try with 8 samples a set
  quantflow run                       all stages, then run/report.html
  quantflow diagnose                  what the accuracy loss comes from
  quantflow show layers               where the error arises
  quantflow show policies             what plans cost and come to
  quantflow compare fp32 int8         layer by layer, and where it starts to differ
  quantflow lint model.onnx           whether atc compiles a file, whoever made it

Results go to stdout, progress to stderr. Exit status: 0 passed, 1 a gate failed, 2 usage or
configuration, 3 environment (no atc), 4 atc failed.
"""

STAGE_COMMANDS = {
    "prepare": (
        "00_model",
        """Make the canonical model, its layers, roles and groups.

\b
Examples:
  quantflow prepare
  quantflow prepare --set model.onnx=other.onnx
""",
    ),
    "build-set": (
        "10_set",
        """Draw the samples; check that the calibration set looks like deployment.

\b
Examples:
  quantflow build-set
  quantflow build-set --set set.selection=match
  quantflow build-set --json | jq .drift.reasons
""",
    ),
    "calibrate": (
        "20_ranges",
        """Choose the range of every tensor; check what it clips and whether deployment fits it.

\b
Examples:
  quantflow calibrate
  quantflow calibrate --set quantization.estimator=kl
""",
    ),
    "optimize": (
        "25_optimize",
        """Shift and smooth activations, round weights and correct biases, where each of them helps.

Each pass is measured with everything INT8, and kept only where it lowers the error.

\b
Examples:
  quantflow optimize
  quantflow optimize --set optimize.multiply=false
  quantflow optimize --json | jq .optimize.passes
""",
    ),
    "sweep": (
        "30_sweep",
        """Measure which groups INT8 hurts; find and verify the precision plan.

The plan, 30_sweep/plan.json, may be edited: the next stage obeys it. A sweep that was interrupted
goes on where it stopped.

\b
Examples:
  quantflow sweep
  quantflow sweep --set plan.policy=attention
  quantflow sweep --set budget.cosine_mean=0.995 --json | jq .sweep.policies
""",
    ),
    "export-onnx": (
        "40_onnx",
        """Write the deploy model and its QDQ twin; check their parity.

\b
Examples:
  quantflow export-onnx
  quantflow export-onnx --dry-run
""",
    ),
    "compare": (
        "45_compare",
        """Compare fp32, fp16 and int8 on the evaluation samples; or any two sides, A and B.

Without A and B, the stage that judges the run. With them, every layer of B is held against A's, and
the first place beyond its threshold is named. A side is fp32, fp16, fp16_plain, int8 or qdq of the
run, an ONNX file, or a directory of tensors: .npy or .npz files named by layer, or msprobe's dump.
Two directories need no configuration. Exits 1 when they differ.

\b
Examples:
  quantflow compare
  quantflow compare --json | jq .comparison.fidelity
  quantflow compare fp32 int8
  quantflow compare fp16 deploy.onnx --samples inputs.npz
  quantflow compare fp32 dump_of_the_npu --json | jq .first_beyond
""",
    ),
    "export-om": (
        "50_om",
        """Convert to .om with atc, or write the hand-over folder.

The hand-over folder converts the model on another machine that has atc. Exits 3 when there is no
atc, 4 when a conversion failed, 2 when preflight finds what atc would refuse. `--dry-run` shows the
commands and what preflight finds, and starts no atc. What convert.py made of that folder is taken
back by `--collect`, after every .om file was verified again.

\b
Examples:
  quantflow export-om
  quantflow export-om --dry-run
  quantflow export-om --collect run/50_om
  quantflow export-om --set target.chip=Ascend310B1
""",
    ),
}
"""Folder and help of every stage's command."""

app = typer.Typer(
    name="quantflow",
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from quantflow import __version__

        print(f"quantflow {__version__}")
        raise typer.Exit


@app.callback()
def quantflow(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options before the command."""


app.command()(init)
app.command()(doctor)
app.command("from-qdq")(from_qdq)
_OWN = {"compare": compare, "export-om": export_om}
for _name, (_folder, _help) in STAGE_COMMANDS.items():
    app.command(_name, help=_help)(_OWN.get(_name) or stage_command(_folder))
for _command in (diagnose, run, profile, watch, report, show, lint, explain):
    app.command()(_command)
