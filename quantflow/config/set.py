"""`[set]`: the calibration set and where its records come from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from quantflow.config.section import FunctionName, Section

Selection = Literal["random", "match"]
TokenizerField = Literal["input_ids", "attention_mask", "token_type_ids"]
SourceKind = Literal["jsonl", "csv", "parquet", "text", "imagefolder", "dataset", "npz", "function"]


class SourceConfig(Section):
    """Where records come from.

    Attributes:
        kind: file format; `dataset` is a directory saved by the `datasets` library; `npz` holds one
            array per model input, samples along the first axis; `function` is a user's function
            that yields dict records.
        path: file, directory or, with ``*`` in the last part, all files that fit; for all kinds but
            `function`.
        function: ``module:function`` without arguments.
    """

    kind: SourceKind
    path: str | None = None
    function: FunctionName | None = None

    @model_validator(mode="after")
    def _one_place(self) -> SourceConfig:
        if self.kind == "function" and self.function is None:
            raise ValueError("kind 'function' needs 'function'")
        if self.kind != "function" and self.path is None:
            raise ValueError(f"kind '{self.kind}' needs 'path'")
        return self


class PreprocessConfig(Section):
    """From a record to the model's inputs.

    With `tokenizer`, the column `column` is tokenized. With `function`, the user's function takes a
    record and returns one array per input, without the batch axis. With neither, the record's own
    columns are the inputs.

    Attributes:
        tokenizer: path of a ``tokenizer.json``. It fills the inputs called like its fields, and the
            mask input whatever its name is.
        names: the tokenizer's field for every input that is called otherwise.
        column: column that holds the text; a source of kind `text` has its lines there.
        max_length: tokens kept of a text.
        pad: ``max_length`` pads every sample to that length; ``none`` leaves lengths as they are.
        function: ``module:function`` from record to arrays.
    """

    tokenizer: str | None = None
    names: dict[str, TokenizerField] = Field(default={})
    column: str = "text"
    max_length: int = Field(strict=True, default=128, ge=1)
    pad: Literal["max_length", "none"] = "max_length"
    function: FunctionName | None = None

    @model_validator(mode="after")
    def _one_way(self) -> PreprocessConfig:
        if self.tokenizer is not None and self.function is not None:
            raise ValueError("give 'tokenizer' or 'function', not both")
        if self.names and self.tokenizer is None:
            raise ValueError("'names' needs 'tokenizer', whose fields it maps to inputs")
        return self


class SetConfig(Section):
    """The calibration set and the samples that judge it.

    Attributes:
        samples: size of the calibration set, drawn from `candidates`.
        heldout_samples: deployment samples that clipping is reported on.
        evaluation_samples: samples that fp16 and int8 are compared with fp32 on.
        selection: `random` takes candidates by chance; `match` takes those that together look like
            deployment.
        deployment_samples: further deployment samples, which the calibration set is compared with
            and matched to; all that are left when there are fewer.
        pool_samples: candidates that `match` chooses from; all of them when there are fewer. The
            model only runs on a shortlist of them.
        candidates: pool of the calibration set.
        deployment: what production sends. Without it, held-out samples are other candidates.
        profile: a file that `quantflow profile` made of what production sends, where the samples
            themselves cannot be had; the calibration set is compared with and matched to it.
        evaluation: what accuracy is measured on. Without it, other samples of `deployment`.
    """

    samples: int = Field(strict=True, default=64, ge=1)
    heldout_samples: int = Field(strict=True, default=64, ge=1)
    evaluation_samples: int = Field(strict=True, default=64, ge=1)
    selection: Selection = "random"
    deployment_samples: int = Field(strict=True, default=200, ge=1)
    pool_samples: int = Field(strict=True, default=400, ge=1)
    candidates: SourceConfig
    deployment: SourceConfig | None = None
    profile: str | None = None
    evaluation: SourceConfig | None = None
    preprocess: PreprocessConfig = PreprocessConfig()

    @model_validator(mode="after")
    def _something_to_match(self) -> SetConfig:
        if self.deployment is not None and self.profile is not None:
            raise ValueError(
                "give [set.deployment] or 'profile', which stands in for it, not both: take "
                "[set.deployment] out of the file"
            )
        if self.selection == "match" and self.deployment is None and self.profile is None:
            raise ValueError("selection 'match' needs [set.deployment] or 'profile' to match")
        return self
