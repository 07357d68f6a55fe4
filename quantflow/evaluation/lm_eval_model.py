# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownArgumentType=false
"""A run's precision as a model of lm-evaluation-harness, for MMLU, C-Eval and the like.

    import lm_eval
    from quantflow.evaluation.lm_eval_model import QuantflowLM

    model = QuantflowLM("my_run", "tokenizer.json", precision="int8")
    lm_eval.simple_evaluate(model=model, tasks=["mmlu"])

Importing this needs the harness: ``pip install 'quantflow[lm-eval]'``. Its tasks fetch their data
from where the harness says; int8 and fp16 are emulated, as in the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from quantflow.artifacts.comparison import Precision
from quantflow.artifacts.export_record import ExportRecord
from quantflow.artifacts.model_record import ModelRecord
from quantflow.artifacts.plan import PrecisionPlan
from quantflow.config import RuntimeConfig, TargetConfig
from quantflow.errors import fail
from quantflow.evaluation.language_scorer import LanguageScorer
from quantflow.evaluation.precisions import open_precisions
from quantflow.evaluation.token_windows import continuation_window, rolling_windows

try:
    from lm_eval.api.model import TemplateLM
except ImportError as error:
    fail(
        "QF608",
        f"lm-evaluation-harness cannot be imported: {error}",
        where="quantflow.evaluation.lm_eval_model",
        fix="pip install 'lm-eval>=0.4.9,<0.5', which the extra quantflow[lm-eval] does",
    )

_MOST_TOKENS = 256
"""Tokens to generate where a task does not say, as the harness itself has it."""


class QuantflowLM(TemplateLM):
    """The first bucket of a run in one precision.

    Args:
        run: directory of a run that has exported.
        tokenizer: its `tokenizer.json`.
        precision: `fp32`, `fp16` (emulated, with the plan's islands) or `int8` (the lowered deploy
            file).
        end_token: stands before a text without context, and ends one that is generated.
        special_tokens: whether what the tokenizer puts around a text is put there. Off, as in the
            harness, for some put a token behind it.
        tokens: the input that holds the token ids.
        target: as in the configuration of the run; `fp19_dequant` counts.
        runtime: of onnxruntime.

    Raises:
        QuantflowError: QF401 when the run has not exported, QF104 for a tokenizer that is not
            there, QF103 for an end token or a precision that is not there, QF310 when the model is
            no language model.
    """

    def __init__(
        self,
        run: str | Path,
        tokenizer: str | Path,
        precision: Precision = "int8",
        *,
        end_token: str = "<|endoftext|>",
        special_tokens: bool = False,
        tokens: str = "input_ids",
        target: TargetConfig | None = None,
        runtime: RuntimeConfig | None = None,
    ) -> None:
        super().__init__()
        if not Path(tokenizer).is_file():
            fail("QF104", f"no such file: {tokenizer}", where="tokenizer", fix="check the path")
        self.tokenizer = Tokenizer.from_file(str(tokenizer))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self._special_tokens = special_tokens
        end = self.tokenizer.token_to_id(end_token)
        if end is None:
            fail("QF103", f"the tokenizer has no token {end_token!r}", where="end_token")
        self._end: int = end
        self._scorer = _scorer(
            Path(run), precision, tokens, target or TargetConfig(), runtime or RuntimeConfig()
        )

    @property
    def eot_token_id(self) -> int:
        """Id of the end token."""
        return self._end

    @property
    def max_length(self) -> int:
        """Positions of the bucket."""
        return self._scorer.length

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        """Token ids of a text."""
        special = self._special_tokens if add_special_tokens is None else add_special_tokens
        return self.tokenizer.encode(string, add_special_tokens=special).ids

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Of continuations whose ids, and those of their contexts, are given."""
        length = self._scorer.length
        windows = [continuation_window(context, after, length) for _, context, after in requests]
        return list(self._scorer.score(windows))

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """Of whole texts, each behind the end token."""
        length, found = self._scorer.length, list[float]()
        for (text,) in (request.args for request in requests):
            windows = list(rolling_windows(self.tok_encode(text), self._end, length))
            found.append(sum(value for value, _ in self._scorer.score(windows)))
        return found

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """The likeliest token after each other, up to a text that a task stops at.

        Raises:
            QuantflowError: QF103 for a task that draws at random.
        """
        return [self._generated(*request.args) for request in requests]

    def _generated(self, context: str, options: dict[str, Any]) -> str:
        if options.get("do_sample") and options.get("temperature", 1.0) > 0:
            fail("QF103", "a task draws tokens at random", where="do_sample", fix="set it to false")
        asked: str | list[str] = options.get("until") or []
        until = [end for end in ([asked] if isinstance(asked, str) else asked) if end]

        def stop(found: list[int]) -> bool:
            text = self.tokenizer.decode(found)
            return found[-1] == self._end or any(end in text for end in until)

        ids = self.tok_encode(context) or [self._end]
        found = self._scorer.generate(ids, options.get("max_gen_toks", _MOST_TOKENS), stop)
        text = self.tokenizer.decode([token for token in found if token != self._end])
        for end in until:
            text = text.partition(end)[0]
        return text


def _scorer(
    run: Path, precision: Precision, tokens: str, target: TargetConfig, runtime: RuntimeConfig
) -> LanguageScorer:
    folder = run / "40_onnx"
    export = ExportRecord.read(folder / "export.json")
    record = ModelRecord.read(run / "00_model" / "model.json")
    plan, bucket = PrecisionPlan.read(folder / "plan.json"), export.buckets[0]
    models = open_precisions(folder, bucket, plan, target, runtime)
    runners = {"fp32": models.fp32, **models.others}
    if precision not in runners:
        fail("QF103", f"the run has no precision {precision!r}", where="precision")
    return LanguageScorer(runners[precision], record, bucket.dims, tokens)
