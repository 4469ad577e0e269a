#!/usr/bin/env python3
"""Small models made from recipes, with the logits that they must give.

No weights are stored: `recipes.json` has each model's metadata and the shapes of its tensors, and a counter-based
generator, keyed by a tensor's name, gives the same values on every machine. `goldens/MODEL.npz` has what an f32
evaluation of the same weights gives: `tokens` i32[48], and per weight type (F32, Q4_K, ...) the logits f32[48, 128]
of all positions. 48 tokens reach past the sliding windows of 16 to 32 that the recipes have.

`families.json` has one more small model for each further architecture, written shorter: all have the same keys but
for those listed, and their tensors by the names of groups (`like`: those of another model but for some keys). They have logits for F32 alone, kept as f16;
those whose RoPE depends on the context also F32_long, in a context of 512 positions (and F32 in one of 256).

  zoo.py models                             the models' names
  zoo.py families                           those of families.json
  zoo.py encoders                           its encoders, whose references are the embeddings of all tokens
  zoo.py make-families DIR                  all of them: DIR/MODEL.gguf and DIR/MODEL.tokens
  zoo.py check-families DIR SUFFIX          DIR/MODEL.SUFFIX of all of them
  zoo.py types MODEL                        the weight types that MODEL has logits for
  zoo.py tokens MODEL                       its token ids, comma-separated
  zoo.py make MODEL OUT.gguf [--type T]     the model; T: its matrices as random blocks of that type;
                                            --dequantized: the values of those blocks as F32
  zoo.py check MODEL LOGITS.f32 [--type T] [--but-one]
                                            raw little-endian f32[48, 128] against the reference; exit code 1 past
                                            the bound on the normalized mean squared error. F32: 1e-5 (the reference
                                            takes GELU from a table of f16). Other types: 2.5e-4; activations of 16
                                            bits stay near 3e-7, bf16 ones reach 1.4e-4, and int8 ones alone 2e-3,
                                            so the bound tells the arithmetics apart. --but-one, for bf16: one
                                            ill-conditioned position may have four times the bound's worth
                                            (llama-dense in Q5_K: position 23 has 25 times the error of all others).
"""
import argparse
import json
import pathlib
import sys
import zlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, GGUFWriter, quants

HERE = pathlib.Path(__file__).resolve().parent
WEIGHT_SEED = 1
BOUND_F32, BOUND_QUANTIZED = 1e-5, 2.5e-4

# A block type's size in values and bytes, and its f16 scales: byte offset -> magnitude, chosen so that the decoded
# weights are of a trained model's size.
BLOCK_TYPES = {
    "Q4_0": (32, 18, {0: 0.02}),
    "Q4_1": (32, 20, {0: 0.02, 2: -0.15}),
    "Q5_0": (32, 22, {0: 0.01}),
    "Q5_1": (32, 24, {0: 0.01, 2: -0.15}),
    "Q8_0": (32, 34, {0: 0.0012}),
    "Q2_K": (256, 84, {80: 0.006, 82: 0.01}),
    "Q3_K": (256, 110, {108: 0.0016}),
    "Q4_K": (256, 144, {0: 0.0006, 2: 0.004}),
    "Q5_K": (256, 176, {0: 0.0003, 2: 0.004}),
    "Q6_K": (256, 210, {208: 0.0001}),
    "IQ1_S": (256, 50, {0: 0.01}),
    "IQ1_M": (256, 56, {}),  # its scale is spread over four bytes, see spread_scale
    "IQ2_XXS": (256, 66, {0: 0.001}),
    "IQ2_XS": (256, 74, {0: 0.001}),
    "IQ2_S": (256, 82, {0: 0.001}),
    "IQ3_XXS": (256, 98, {0: 0.0006}),
    "IQ3_S": (256, 110, {0: 0.0006}),
    "IQ4_NL": (32, 18, {0: 0.0012}),
    "IQ4_XS": (256, 136, {0: 0.00006}),
    "TQ1_0": (256, 54, {52: 0.1}),
    "TQ2_0": (256, 66, {64: 0.1}),
    "MXFP4": (32, 17, {}),
    "NVFP4": (64, 36, {}),
    "Q1_0": (128, 18, {0: 0.05}),
    "Q2_0": (64, 18, {0: 0.08}),
}
# Of these the logits are those that the F32 program gives for the decoded weights (make --dequantized): no other
# program evaluates them.
TWIN_TYPES = ("NVFP4", "Q1_0", "Q2_0")
GGML_QUANT_SIZES[42] = (64, 18)  # Q2_0, which the package does not know yet
FLOAT_TYPES = ("F16", "BF16", "F64")
LONG = "F32_long"  # of logits: F32 weights, a long context

VALUE_TYPES = {
    "str": GGUFValueType.STRING,
    "u32": GGUFValueType.UINT32,
    "i32": GGUFValueType.INT32,
    "f32": GGUFValueType.FLOAT32,
    "bool": GGUFValueType.BOOL,
}


def read_book(name):
    return json.loads((HERE / name).read_text())


class Recipe:
    def __init__(self, name):
        self.name = name
        book, families = read_book("recipes.json"), read_book("families.json")
        if name in book["models"]:
            self._plain(book, book["models"][name])
        elif name in families["models"] or name in families["encoders"]:
            self._family(families, families["models"].get(name) or families["encoders"][name])
        else:
            sys.exit(f"zoo: no model '{name}'; there are {', '.join([*book['models'], *families['models']])}")

    def _family(self, book, model):
        if "like" in model:  # another's tensors, with these keys in place of its
            base = book["models"][model["like"]]
            own = [line.split(" ", 1)[0] for line in model["keys"]]
            model = base | {"keys": [line for line in base["keys"] if line.split(" ", 1)[0] not in own] + model["keys"]}
        self.n_vocab = model.get("vocabulary", 128)
        self.arch = model["arch"]
        own = [line.split(" ", 1)[0] for line in model["keys"]]
        lines = [line for line in book["keys"] if line.split(" ", 1)[0] not in own] + model["keys"]
        self.keys = [(key.replace("{arch}", self.arch), kind, value) for key, kind, value in map(self._parse, lines)]

        def expand(names):
            for name in names:
                if name in book["tensors"]:
                    yield from book["tensors"][name].items()
                else:
                    tensor, dims = name.split(" ")
                    yield tensor, [int(n) for n in dims.split(",")]

        self.tensors = dict(expand(model["model"]))
        for layer in range(model.get("layers", 2)):
            names = model.get(f"layer {layer}", model["layer"])
            self.tensors |= {f"blk.{layer}.{suffix}": dims for suffix, dims in expand(names)}

    def _plain(self, book, model):
        self.n_vocab = model["vocabulary"]
        lines = model["keys"] + book["shared_keys"].get(model.get("keys_of"), [])
        self.keys = [self._parse(line) for line in lines]
        self.arch = next(value for key, _, value in self.keys if key == "general.architecture")
        self.keys = [(key.replace("{arch}", self.arch), kind, value) for key, kind, value in self.keys]
        # name -> dimensions in GGUF order, the contiguous one first
        self.tensors = dict(model["tensors"])
        for layer in range(model["layers"]):
            for suffix, dims in model["layer_tensors"].items():
                self.tensors[f"blk.{layer}.{suffix}"] = dims

    @staticmethod
    def _parse(line):
        """`KEY TYPE JSON` as a triple."""
        key, kind, value = line.split(" ", 2)
        return key, kind, json.loads(value)


def random_words(name, count, seed):
    return np.random.Philox(key=[zlib.crc32(name.encode()), seed]).random_raw(count)


def uniform(name, count):
    """f32[count] in [-1, 1) of 24 random bits each."""
    top_bits = random_words(name, count, WEIGHT_SEED) >> np.uint64(40)
    return (top_bits.astype(np.float64) / 2**23 - 1).astype(np.float32)


def float_weights(name, dims, tied):
    """f32 in GGUF's order. Norms lie about 1, rates of decay below 0, biases are small, matrices keep the size of what they multiply."""
    u = uniform(name, int(np.prod(dims)))
    if name.startswith(("rope_freqs", "rope_factors")):
        w = 1 + np.abs(u)
    elif "ssm_a" in name:
        w = -np.abs(u) - 0.05
    elif "norm" in name and name.endswith(".weight"):
        w = 1 + np.float32(0.25) * u
    elif name.endswith(".scale") and dims == [1]:
        w = 1 + np.float32(0.5) * u
    elif name.endswith(".bias") or min(dims) == 1 or len(dims) == 1:
        w = np.float32(0.2) * u
    elif name == "token_embd.weight" and not tied:
        w = u
    else:
        w = np.float32(1.6 / np.sqrt(dims[0])) * u
    return w.astype(np.float32).reshape(dims[::-1])


def random_blocks(name, dims, block_type):
    """u8[rows, bytes of a row]: random quants, with scales of a sensible size put over them."""
    values_per_block, block_bytes, scales = BLOCK_TYPES[block_type]
    rows = int(np.prod(dims[1:]))
    count = rows * (dims[0] // values_per_block)
    words = random_words(name, -(-count * block_bytes // 8), WEIGHT_SEED + 1)
    data = words.view(np.uint8)[: count * block_bytes].reshape(count, block_bytes).copy()
    for offset, magnitude in scales.items():
        scale = magnitude * (0.75 + 0.25 * uniform(f"{name}@{offset}", count))
        data[:, offset : offset + 2] = scale.astype(np.float16).view(np.uint8).reshape(count, 2)
    if block_type == "MXFP4":
        data[:, 0] = 121 + data[:, 0] % 3  # a power of two near 2^-5
    elif block_type == "NVFP4":
        data[:, :4] = 8 + data[:, :4] % 24  # e4m3: 2^-6 to 2^-3
    elif block_type == "IQ1_M":
        spread_scale(name, data)
    return data.reshape(rows, -1)


def spread_scale(name, data):
    """Puts the f16 scale of IQ1_M into the high halves of its last four odd bytes."""
    scale = (0.01 * (0.75 + 0.25 * uniform(name + "@d", len(data)))).astype(np.float16).view(np.uint16)
    for i in range(4):
        high = (scale >> (4 * i) & 15).astype(np.uint8) << 4
        data[:, 49 + 2 * i] = data[:, 49 + 2 * i] & 15 | high


def dequantized(data, block_type):
    """f32[rows, columns]."""
    if block_type not in ("Q1_0", "Q2_0"):
        return quants.dequantize(data, GGMLQuantizationType[block_type])
    blocks = data.reshape(-1, 18)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    if block_type == "Q1_0":
        q = 2 * np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").astype(np.float32) - 1
    else:
        pairs = blocks[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
        q = pairs.reshape(len(blocks), -1).astype(np.float32) - 1
    return (scale * q).reshape(len(data), -1)


def gguf_id(weight_type):
    return 42 if weight_type == "Q2_0" else GGMLQuantizationType[weight_type]


def experts_of_tokens(dims):
    """i32: all experts of each token, from another one on for each."""
    used, tokens = dims
    return ((np.arange(tokens)[:, None] + np.arange(used)) % used).astype(np.int32)


def takes_type(name, dims, weight_type):
    """Whether a quantizer would touch this tensor: matrices but routers, of rows that are whole blocks."""
    if len(dims) < 2 or not name.endswith(".weight") or "norm" in name or "ffn_gate_inp" in name or "tid2eid" in name:
        return False
    return weight_type in ("F32", *FLOAT_TYPES) or dims[0] % BLOCK_TYPES[weight_type][0] == 0


def add_tensor(writer, name, dims, weight_type, tied, decoded=False):
    """Random weights of this type; decoded: their values as F32."""
    if "tid2eid" in name:
        writer.add_tensor(name, experts_of_tokens(dims))
    elif weight_type == "F32":
        writer.add_tensor(name, float_weights(name, dims, tied))
    elif weight_type == "F64":  # the F32 weights, widened
        writer.add_tensor(name, float_weights(name, dims, tied).astype(np.float64))
    else:
        if weight_type in FLOAT_TYPES:
            data = quants.quantize(float_weights(name, dims, tied), gguf_id(weight_type))
        else:
            data = random_blocks(name, dims, weight_type)
        if decoded:
            writer.add_tensor(name, dequantized(data, weight_type).reshape(dims[::-1]))
        else:
            # [..., rows, bytes]: matrices of experts have three dimensions.
            writer.add_tensor(name, data.reshape(*dims[:0:-1], -1), raw_dtype=gguf_id(weight_type))


def make(recipe, path, weight_type, decoded=False, takes_type=takes_type, add_tensor=add_tensor):
    writer = GGUFWriter(str(path), recipe.arch)
    for key, kind, value in recipe.keys:
        if key == "general.architecture":  # the writer has put it
            continue
        if kind.endswith("[]"):
            writer.add_key_value(key, value, GGUFValueType.ARRAY, VALUE_TYPES[kind[:-2]])
        else:
            writer.add_key_value(key, value, VALUE_TYPES[kind])
    writer.add_token_list([f"tok_{i}" for i in range(recipe.n_vocab)])
    writer.add_token_scores([0.0] * recipe.n_vocab)
    tied = "output.weight" not in recipe.tensors
    for name, dims in recipe.tensors.items():
        add_tensor(writer, name, dims, weight_type if takes_type(name, dims, weight_type) else "F32", tied, decoded)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def golden(name):
    return np.load(HERE / "goldens" / f"{name}.npz")


def is_within(bound, errors, but_one):
    """Whether positions' errors add up to the bound at most; but_one: see --but-one."""
    error = errors.sum()
    if but_one:
        return error - errors.max() <= bound and error <= 4 * bound
    return error <= bound


def log_softmax(logits):
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def check(name, path, weight_type, but_one=False):
    book = golden(name)
    if weight_type not in book:
        sys.exit(f"zoo: {name} has no reference for {weight_type}")
    want = book[weight_type].astype(np.float64)
    got = np.fromfile(path, "<f4")
    if got.size != want.size:
        sys.exit(f"zoo: {path} has {got.size} values, expected {want.shape[0]} positions x {want.shape[1]}")
    got = got.astype(np.float64).reshape(want.shape)
    if not np.isfinite(got).all():
        sys.exit(f"zoo: {path}: position {int(np.argwhere(~np.isfinite(got))[0][0])} has a logit that is not finite")
    errors = np.square(want - got).sum(axis=1) / np.square(want).sum()
    error = errors.sum()
    p, q = log_softmax(want), log_softmax(got)
    divergence = (np.exp(p) * (p - q)).sum(axis=1)
    bound = BOUND_F32 if weight_type in ("F32", LONG) else BOUND_QUANTIZED
    print(f"{name} {weight_type}: nmse {error:.2e} (bound {bound:.1e}), worst KL {divergence.max():.2e} "
          f"at position {int(divergence.argmax())}")
    return 0 if is_within(bound, errors, but_one) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("models")
    verbs.add_parser("families")
    verbs.add_parser("encoders")
    verbs.add_parser("make-families").add_argument("directory")
    check_families = verbs.add_parser("check-families")
    check_families.add_argument("directory")
    check_families.add_argument("suffix")
    for verb in ("types", "tokens", "make", "check"):
        sub = verbs.add_parser(verb)
        sub.add_argument("model")
        if verb in ("make", "check"):
            sub.add_argument("path")
            sub.add_argument("--type", default="F32")
        if verb == "check":
            sub.add_argument("--but-one", action="store_true")
        if verb == "make":
            sub.add_argument("--dequantized", action="store_true")
    a = parser.parse_args()
    if a.verb == "models":
        print("\n".join(read_book("recipes.json")["models"]))
    elif a.verb == "families":
        print("\n".join(read_book("families.json")["models"]))
    elif a.verb == "encoders":
        print("\n".join(read_book("families.json")["encoders"]))
    elif a.verb == "make-families":
        for name in read_book("families.json")["models"]:
            make(Recipe(name), pathlib.Path(a.directory) / f"{name}.gguf", "F32")
            tokens = ",".join(map(str, golden(name)["tokens"]))
            (pathlib.Path(a.directory) / f"{name}.tokens").write_text(tokens)
    elif a.verb == "check-families":
        names = read_book("families.json")["models"]
        sys.exit(max(check(name, pathlib.Path(a.directory) / f"{name}.{a.suffix}", "F32") for name in names))
    elif a.verb == "types":
        print("\n".join(key for key in golden(a.model) if key != "tokens"))
    elif a.verb == "tokens":
        print(",".join(map(str, golden(a.model)["tokens"])))
    elif a.verb == "make":
        make(Recipe(a.model), a.path, a.type, a.dequantized)
    else:
        sys.exit(check(a.model, a.path, a.type, a.but_one))


if __name__ == "__main__":
    main()
