"""The table of error codes: title and explanation, read by `quantflow explain CODE`."""

from __future__ import annotations

from typing import Final, NamedTuple


class ErrorCode(NamedTuple):
    """A kind of problem: a short title, and what it means and what to do about it."""

    title: str
    explanation: str


ERROR_CODES: Final[dict[str, ErrorCode]] = {
    # 1xx configuration and usage
    "QF101": ErrorCode(
        "configuration file not readable",
        "The file named by --config does not exist or is not valid TOML. "
        "`quantflow init` writes one that is complete and commented.",
    ),
    "QF102": ErrorCode(
        "unknown configuration key",
        "Keys are checked so that a misspelt setting is never silently ignored.",
    ),
    "QF103": ErrorCode(
        "configuration value refused",
        "A value has the wrong type, the wrong unit or lies outside its bounds. Units are in the "
        "names: `percentile` runs from 0 to 100, `*_fraction` from 0 to 1.",
    ),
    "QF104": ErrorCode(
        "file named in the configuration is missing",
        "Relative paths are resolved against the directory of the configuration file. "
        "`package:NAME/rest/of/path` names a file inside an installed Python package.",
    ),
    "QF105": ErrorCode(
        "function named in the configuration cannot be imported",
        "`module:function` is imported with the configuration's directory first on the path.",
    ),
    "QF106": ErrorCode(
        "--set is not of the form section.key=value",
        "The value is read as TOML; text that is not valid TOML is taken as a string.",
    ),
    "QF107": ErrorCode(
        "unknown name on the command line",
        "There is no error code, layer, group or tensor of that name. `quantflow explain` lists "
        "all codes, `quantflow show layers` the layers.",
    ),
    "QF108": ErrorCode(
        "file exists already",
        "`quantflow init` does not replace a configuration that is there, unless told to by "
        "--force.",
    ),
    "QF109": ErrorCode(
        "command line not understood",
        "There is no such command, option or choice, or they do not go together; every command "
        "shows its own with --help.",
    ),
    "QF110": ErrorCode(
        "unknown chip",
        "`target.chip` is passed to atc as --soc_version. `npu-smi info` shows the chip of a "
        "machine with an NPU; write its name with `Ascend` in front.",
    ),
    "QF111": ErrorCode(
        "conversion refused before atc",
        "Preflight found an error in the options, in the files they name or in the deploy model "
        "that atc would stop at, so it was not started. What was converted before stays.",
    ),
    # 2xx model
    "QF201": ErrorCode(
        "not a readable ONNX model",
        "The file is missing, truncated, not ONNX, or inconsistent in itself.",
    ),
    "QF202": ErrorCode(
        "external data outside the model's folder",
        "A model file may only name data files beside itself, so that an untrusted model cannot "
        "make quantflow read other files.",
    ),
    "QF203": ErrorCode(
        "torch export failed",
        "torch.onnx.export could not turn the module into a graph. Most often a dimension that the "
        "configuration calls free is fixed by the module: give its size as a number instead.",
    ),
    "QF204": ErrorCode(
        "no such value in the graph",
        "A tensor name does not exist in the canonical model. `quantflow show layers` lists them.",
    ),
    "QF205": ErrorCode(
        "model does not load",
        "onnxruntime refused the model. Its message follows; `quantflow prepare` repeats it.",
    ),
    "QF206": ErrorCode(
        "bucket does not fit the model's free dimensions",
        "INT8 models compile with static shapes only, so each bucket gives every free dimension a "
        "size, and names no other dimension. Files are named after the sizes.",
    ),
    "QF207": ErrorCode(
        "operator that cannot be compiled",
        "atc has no parser for this operator at this opset (it would stop with E16002 or E19010), "
        "and quantflow knows no rewrite for it.",
    ),
    "QF208": ErrorCode(
        "model is already quantized, or not in float32",
        "The canonical model is float32: give the float32 model that this one was made from.",
    ),
    "QF209": ErrorCode(
        "opset conversion failed",
        "The model's opset is outside what the target compiles, and it could not be converted.",
    ),
    "QF210": ErrorCode(
        "nothing to quantize",
        "The model has no layer that can be INT8: no MatMul, Gemm or convolution with a constant "
        "weight that the dialect allows.",
    ),
    "QF211": ErrorCode(
        "inputs of the configuration and of the model differ",
        "Names, types or the number of dimensions in [model.inputs] are not those of the model.",
    ),
    "QF212": ErrorCode(
        "output without a batch axis",
        "Accuracy is judged sample by sample, so every output needs the batch as its first axis.",
    ),
    "QF213": ErrorCode(
        "model does not run",
        "onnxruntime loaded the model, and stopped at a node when it ran on inputs of these "
        "shapes. Most often the graph holds a size that the configuration calls free.",
    ),
    "QF214": ErrorCode(
        "samples of a batch depend on each other",
        "Samples are batched as it suits, so what the model makes of a sample must not depend on "
        "the others in the batch, as it does where a mean is taken over the batch.",
    ),
    "QF215": ErrorCode(
        "input that may or may not mark padding",
        "Padding is left out of the statistics by an input that is 0 there. One that is added to "
        "scores is the other way round: 0 where a position is real.",
    ),
    "QF216": ErrorCode(
        "model cannot take a bucket",
        "With the bucket's sizes, a node of the model cannot run, or the size of an output is not "
        "known before it does. Each bucket is compiled as a static graph.",
    ),
    "QF217": ErrorCode(
        "weight that is not finite",
        "A layer's weight or bias holds NaN or Inf, as after a training that diverged, so that "
        "whatever the model computes from it means nothing.",
    ),
    "QF218": ErrorCode(
        "canonical model differs from the one that was given",
        "Every later figure is about the canonical model, so it must compute what the given one "
        "computes. On random inputs, their outputs differ by more than rounding explains.",
    ),
    "QF230": ErrorCode(
        "quantization that cannot be taken apart",
        "Of a quantized file, quantflow reads QuantizeLinear and DequantizeLinear with constant "
        "scales, and the operators of QOperator format that mean the same. Dynamic quantization "
        "has no scales to read: quantize statically, or give the float model.",
    ),
    "QF231": ErrorCode(
        "nothing in the quantized file that Ascend computes in INT8",
        "Ascend's INT8 layers read an activation with one scale for the tensor (int8 or uint8) "
        "and a symmetric int8 weight with one scale, or one per output channel. No layer of the "
        "file is like that; the reasons are listed.",
    ),
    "QF232": ErrorCode(
        "file is not quantized",
        "`quantflow from-qdq` takes a model that another tool quantized. A float model goes "
        "through `quantflow run`, which finds the quantization itself.",
    ),
    # 3xx data
    "QF301": ErrorCode(
        "data source is empty",
        "A file, directory or function was found, but it holds no record.",
    ),
    "QF302": ErrorCode(
        "data source not readable",
        "A file is not what its `kind` says, or is damaged. Object arrays in .npz files are "
        "refused, since reading them would run code from the file.",
    ),
    "QF303": ErrorCode(
        "column missing from a record",
        "`set.preprocess.column` names the text; without tokenizer and function, every model input "
        "needs a column of its name.",
    ),
    "QF304": ErrorCode(
        "user function failed on data",
        "The function named in the configuration raised, or returned something of the wrong kind.",
    ),
    "QF305": ErrorCode(
        "tokenizer not usable",
        "`set.preprocess.tokenizer` names a tokenizer.json of the `tokenizers` library. It fills "
        "the inputs input_ids, attention_mask and token_type_ids, and the input marked `mask`; "
        "`set.preprocess.names` says which of these an input of another name takes.",
    ),
    "QF306": ErrorCode(
        "sample does not fit the model's inputs",
        "Every sample needs one array per input, without the batch axis, of the input's dtype, "
        "rank and fixed dimensions, and a mask of 0 at padding and 1 elsewhere. Dtypes are "
        "converted only where the values survive it.",
    ),
    "QF307": ErrorCode(
        "sample without usable values",
        "A sample is empty or all padding, so that its statistics would say nothing about "
        "production. Among candidates, it is left out and reported in `hygiene.json`.",
    ),
    "QF308": ErrorCode(
        "too few records",
        "The calibration, held-out and evaluation samples are drawn without repetition and without "
        "overlap. A set is never made smaller in silence. A profile that leaves production is made "
        "of at least 32 different samples, since one of fewer would tell of single samples.",
    ),
    "QF309": ErrorCode(
        "score matrix refused",
        "`task.scores` is a square matrix of finite numbers, one row and column a record of the "
        "task's source; the part above the diagonal is used.",
    ),
    "QF310": ErrorCode(
        "outputs are no logits of the tokens",
        "Perplexity reads the model's first output as the logits of the next token, "
        "(batch, length, vocabulary), and the input that `task.tokens` names as token ids.",
    ),
    "QF311": ErrorCode(
        "outputs are no scores of classes",
        "Agreement compares which class has the highest score along the last axis of the model's "
        "first output, which must have two classes or more. Classification compares it with a "
        "label, so that a record has one decision: an output of (batch, classes).",
    ),
    "QF312": ErrorCode(
        "the user's figure failed",
        "`task.function` is called with a sample's id, its inputs and its outputs, both "
        "dictionaries of arrays without batch axis and padding, and returns one number.",
    ),
    "QF313": ErrorCode(
        "deployment profile refused",
        "`set.profile` names a file that `quantflow profile` wrote: histograms and sketches of "
        "what production sends, no sample among them.",
    ),
    "QF314": ErrorCode(
        "profile of other features",
        "A profile can only judge samples by the features it holds, so it must be made with the "
        "same inputs, tokenizer and kind of records as the calibration set.",
    ),
    "QF315": ErrorCode(
        "sample that is not finite",
        "A sample holds NaN or Inf, which no range can cover. Among candidates, it is left out and "
        "reported in `hygiene.json`.",
    ),
    "QF316": ErrorCode(
        "labels or relevant documents refused",
        "`task.labels` is one whole number for every record of the task's source: the place of its "
        "class along the last axis of the model's first output, from 0. `task.relevant` is one for "
        "every query: the place of its document in `task.documents`, from 0.",
    ),
    "QF317": ErrorCode(
        "outputs are no embeddings",
        "Retrieval compares the model's first output, (batch, width), of queries and documents. A "
        "model that gives one vector a position has to pool them itself.",
    ),
    "QF320": ErrorCode(
        "sample does not fit the bucket",
        "A bucket is a static shape. Shorter samples are padded where the model has a mask; longer "
        "ones, and any other shape without a mask, cannot run. The first bucket of "
        "`target.buckets` is the one that is evaluated.",
    ),
    "QF341": ErrorCode(
        "dumped tensors cannot be read",
        "A side of `quantflow compare` may be a directory of .npy or .npz files named by layer, or "
        "what msprobe writes: dump.json and tensor files. Only arrays of numbers are read, only "
        "from inside the directory, and never pickles (.pt, .pkl), which may run any code.",
    ),
    "QF342": ErrorCode(
        "sides with nothing in common",
        "Two sides are compared by the names of layers, their output tensors and the model's "
        "outputs. These have none of them in common.",
    ),
    # 4xx artifacts
    "QF401": ErrorCode(
        "artifact missing",
        "A file that a stage should have written is not there. Rerun the stage.",
    ),
    "QF402": ErrorCode(
        "artifact not valid",
        "A JSON file does not hold the record it should: it was truncated, or edited wrongly.",
    ),
    "QF403": ErrorCode(
        "samples cannot be read",
        "The safetensors file of a set is damaged or does not match its set.json.",
    ),
    "QF404": ErrorCode(
        "an earlier stage has not run",
        "Stages read what earlier ones wrote. `quantflow run` runs all of them in order.",
    ),
    "QF405": ErrorCode(
        "artifact changed since it was written",
        "A file's digest is not the one in its stage.json, so later results would not be what they "
        "say. Rerun the stage that writes it with --force.",
    ),
    "QF406": ErrorCode(
        "run directory in use",
        "Two processes writing into one run directory would mix their results.",
    ),
    "QF408": ErrorCode(
        "features cannot be read",
        "`10_set/features.safetensors` holds what was measured of the calibration set, which "
        "`quantflow watch` compares production with.",
    ),
    "QF407": ErrorCode(
        "artifact is stale",
        "It was made from another configuration or from other inputs than those in force.",
    ),
    "QF411": ErrorCode(
        "no result of a conversion",
        "`quantflow export-om --collect DIR` reads DIR/result.json, which convert.py writes where "
        "it is run, in the hand-over folder. It is missing, a link, or not what convert.py writes.",
    ),
    "QF412": ErrorCode(
        "result of another run",
        "What was converted elsewhere is taken back only when models, arguments of atc and chip "
        "are those of this run. The run has changed since 50_om was copied, or the folder is of "
        "another one.",
    ),
    # 5xx ranges, plan and export
    "QF501": ErrorCode(
        "tensor does not fit the attention mask",
        "Padding is left out of the statistics by the mask, so the tensor's first axes must be "
        "those of the mask, as 00_model/model.json says. They were not when the model ran.",
    ),
    "QF504": ErrorCode(
        "magnitudes of channels cannot be read",
        "20_ranges/channel_absmax.safetensors is missing, damaged or was written by something "
        "else.",
    ),
    "QF502": ErrorCode(
        "histograms cannot be read",
        "20_ranges/histograms.safetensors is missing, damaged or was written by something else.",
    ),
    "QF506": ErrorCode(
        "rounded weights cannot be read",
        "25_optimize/weights.safetensors is damaged or was written by something else.",
    ),
    "QF541": ErrorCode(
        "element type of a value unknown",
        "fp16 can only be emulated where it is known which tensors are float. Shape inference "
        "could not tell, as behind an operator that it does not know.",
    ),
    "QF542": ErrorCode(
        "plan and model do not fit together",
        "The precision plan names a group that the model does not have, or leaves one out. Group "
        "names are those of model.json.",
    ),
    "QF543": ErrorCode(
        "model and record do not fit together",
        "A layer's node, weight, bias or output is not where model.json says it is.",
    ),
    "QF544": ErrorCode(
        "deploy model not in the expected dialect",
        "An AscendQuant or AscendDequant node has a missing attribute, one of the wrong type "
        "(which the compiler would silently read as 0), or neighbours other than an int8 MatMul "
        "or Gemm.",
    ),
    "QF545": ErrorCode(
        "AMCT record not readable",
        "The text is not a list of `record { key value { scale_d offset_d scale_w offset_w } }`.",
    ),
    "QF503": ErrorCode(
        "deploy model breaks a rule of the dialect",
        "atc would refuse the file, or compute something else. The file is not written. As "
        "quantflow writes the model itself, please report it.",
    ),
    "QF510": ErrorCode(
        "pin that matches nothing",
        "A pattern or role in `plan.pins` fits no group of the model, so it would silently have no "
        "effect. `quantflow show groups` lists names and roles.",
    ),
    "QF511": ErrorCode(
        "override that matches nothing",
        "A pattern or role in `quantization.overrides` fits no layer that can be INT8, so it would "
        "silently have no effect. `quantflow show layers` lists names and roles.",
    ),
    "QF512": ErrorCode(
        "override that cannot hold",
        "Layers that read one tensor share its range, so they cannot have different estimators, "
        "symmetry or percentiles. Weight scales of convolutions are per output channel always, and "
        "MatMul of two variables is symmetric.",
    ),
    # 6xx environment
    "QF601": ErrorCode(
        "execution provider missing",
        "The installed onnxruntime has no support for the device named in `runtime.provider`.",
    ),
    "QF602": ErrorCode(
        "atc not found",
        "atc comes with the CANN toolkit and the ops package of the chip; converting needs no NPU. "
        "Source CANN's set_env.sh, or copy 50_om to a machine that has atc and run convert.py.",
    ),
    "QF603": ErrorCode(
        "torch or torch_npu cannot be imported",
        "A torch factory needs torch, and the device npu torch_npu as well. With torch_npu "
        "installed, torch also needs CANN's libraries: source CANN's set_env.sh, or uninstall "
        "torch_npu.",
    ),
    "QF604": ErrorCode(
        "file cannot be written",
        "The disk is full, the directory is read-only or belongs to someone else, or there is a "
        "file where a folder belongs. What is finished is kept, and `quantflow run` goes on after "
        "it.",
    ),
    "QF605": ErrorCode(
        "workers cannot work together",
        "Under torchrun, calibration is shared out to several processes. One of them did not "
        "come, was lost, or made no progress for half an hour. Nothing half done is kept as done.",
    ),
    "QF606": ErrorCode(
        "workers read different things",
        "All workers must see the same run directory, the same configuration and the same "
        "versions of quantflow and onnxruntime, or the result would not be that of one process. "
        "Machines that work together need the run directory on a file system that they share.",
    ),
    "QF607": ErrorCode(
        "not enough memory",
        "A batch, a bucket or a constant is larger than what the machine can hold.",
    ),
    "QF608": ErrorCode(
        "lm-evaluation-harness missing",
        "`quantflow.evaluation.lm_eval_model` offers a run to lm-evaluation-harness, which is an "
        "optional dependency: pip install 'lm-eval>=0.4.9,<0.5'.",
    ),
    "QF620": ErrorCode(
        "nothing here runs an .om file",
        "An .om file runs on an NPU, through pyACL (`acl`, a part of CANN: source its set_env.sh) "
        "or ais_bench (two wheels of Ascend's tools: aclruntime and ais_bench). Neither is on "
        "PyPI. Without them nothing of the .om file is measured.",
    ),
    "QF621": ErrorCode(
        "the NPU's runtime failed",
        "A call of pyACL or ais_bench failed, raised or answered what it should not, or the "
        "process that ran the model ended. Codes are listed in the AscendCL manual; what happened "
        "is in ~/ascend/log. Whatever was allocated has been given back.",
    ),
    "QF622": ErrorCode(
        "device not usable by torch",
        "`--runner torch:DEVICE` takes cpu, cuda:N where torch was built for it, or npu:N with "
        "torch_npu and CANN.",
    ),
    # 7xx atc
    "QF701": ErrorCode(
        "atc did not convert the model",
        "A model counts as converted only when atc's exit code, its success line and the .om file "
        "agree. The bucket's log is in 50_om/logs; preflight's findings are in om.json.",
    ),
    "QF702": ErrorCode(
        "not a complete .om file",
        "The file's header is not that of an .om file, or announces another length than the file "
        "has. A conversion that was interrupted leaves such files.",
    ),
    "QF703": ErrorCode(
        "an .om file from elsewhere is not what its result says",
        "Every .om file is verified again before it is taken over: a plain file of the announced "
        "size and SHA-256, with a complete header, for the chip of this run.",
    ),
}
