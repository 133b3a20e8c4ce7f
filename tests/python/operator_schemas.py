"""Compares core's list of operators with ONNX's schemas, and onnxruntime's: `operator_schemas.py LIST.json`; prints a line for each difference."""

import json
import sys
from pathlib import Path

import onnx
from onnx import defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state

MICROSOFT = "com.microsoft"
# onnxruntime has them in ONNX's domain.
ONLY_ONNXRUNTIME = {"SimplifiedLayerNormalization"}
# Every operator of operator sets 1 to 5 could say which inputs it may overwrite.
EVERYWHERE = {"consumed_inputs"}
ANY = 2**31 - 1
# Element types that not every backend knows, by core's names.
SMALL = {
    "f8e4m3fn": "float8e4m3fn",
    "f8e4m3fnuz": "float8e4m3fnuz",
    "f8e5m2": "float8e5m2",
    "f8e5m2fnuz": "float8e5m2fnuz",
    "f8e8m0": "float8e8m0",
    "f4e2m1": "float4e2m1",
    "i4": "int4",
    "u4": "uint4",
    "i2": "int2",
    "u2": "uint2",
    "c64": "complex64",
    "c128": "complex128",
    "string": "string",
}
# Defaults that are lists for two directions, of which core takes what there is.
BY_DIRECTION = {("RNN", "activations")}
# Operators that core has without some: integer products, values between elements, sums, bits of pairs, and inputs that give a shape only.
WITHOUT_SMALL = {"BitCast", "Col2Im", "GridSample", "QLinearMatMul", "RandomNormalLike", "RandomUniformLike", "Resize", "Upsample"}


def main() -> None:
    """Prints the differences."""
    known = json.loads(Path(sys.argv[1]).read_text())
    for line in differences(known["newest"], known["operators"], known["functions"]):
        print(line)


def differences(newest: dict[str, int], operators: list[dict], functions: list[dict]) -> list[str]:
    """Gives a line for each thing that core has otherwise than ONNX."""
    found = []
    if defs.onnx_opset_version() != newest[""]:
        found.append(f"the newest operator set is {defs.onnx_opset_version()}, core knows {newest['']}")
    for operator in operators:
        last = newest[operator["domain"]]
        for version in range(1, last + 1):
            found += attribute_differences(operator, version)
            found += count_differences(operator, version)
        if schema_of(operator, last) is not None:
            found += form_differences(operator, last)
    for function in functions:
        found += function_differences(function, newest.get(function["domain"], 1))
    return found


def function_differences(function: dict, newest: int) -> list[str]:
    """Compares a function in all versions that core knows."""
    name = function["name"]
    if function["domain"] == MICROSOFT or name in ONLY_ONNXRUNTIME:
        return onnxruntime_differences(function)
    versions = range(function["since"], newest + 1)
    found = [line for version in versions for line in attribute_differences(function, version)]
    found += [line for version in versions for line in count_differences(function, version)]
    schema = schema_of(function, newest)
    ours = (*function["inputs"], function["outputs"])
    if arity(schema) != ours:
        found.append(f"{name}: core has {ours} as fewest and most inputs and most outputs, ONNX {arity(schema)}")
    return found + default_differences(function, schema)


def onnxruntime_differences(function: dict) -> list[str]:
    """Compares a function of onnxruntime's own with its schema, and the defaults that this has: others are in its descriptions."""
    schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    name, domain = function["name"], function["domain"]
    schema = next((schema for schema in schemas if (schema.name, schema.domain) == (name, domain)), None)
    if schema is None:
        return [f"{name}: onnxruntime does not have it"]
    found = []
    theirs = {(name, attribute.type.name.lower(), attribute.required) for name, attribute in schema.attributes.items()}
    ours = {(attribute["name"], attribute["kind"], attribute["required"]) for attribute in function["attributes"]}
    if ours != theirs:
        found.append(f"{name}: core has {sorted(ours - theirs)}, onnxruntime {sorted(theirs - ours)}")
    counts = (*function["inputs"], function["outputs"])
    if arity(schema) != counts:
        found.append(f"{name}: core has {counts} as fewest and most inputs and most outputs, onnxruntime {arity(schema)}")
    for attribute in function["attributes"]:
        default = onnx.AttributeProto.FromString(schema.attributes[attribute["name"]]._default_value)
        value = helper.get_attribute_value(default) if default.name else None
        value = value.decode() if isinstance(value, bytes) else value
        if value is not None and value != attribute["default"]:
            found.append(f"{name}: {attribute['name']} is {attribute['default']} in core, {value} in onnxruntime")
    return found


def schema_of(operator: dict, version: int) -> defs.OpSchema | None:
    """Gives the form of an operator in that version of the operator set, if it has one."""
    try:
        schema = defs.get_schema(operator["name"], max_inclusive_version=version, domain=operator["domain"])
    except defs.SchemaError:
        return None
    return None if schema.deprecated else schema


def attribute_differences(operator: dict, version: int) -> list[str]:
    """Compares names and kinds of the attributes in one version."""
    schema = schema_of(operator, version)
    if schema is None:
        return []
    theirs = {
        (name, attribute.type.name.lower())
        for name, attribute in schema.attributes.items()
        if name not in EVERYWHERE
    }
    # Cast took the type's name before 6, which the importer turns into its number.
    if operator["name"] == "Cast" and version < 6:
        theirs = {("to", "int")}
    # The power of these was a number before 2, of which the importer takes those that are integers.
    if operator["name"] in {"GlobalLpPool", "LpPool"} and version < 2:
        theirs = {(name, "int" if name == "p" else kind) for name, kind in theirs}
    ours = {
        (attribute["name"], attribute["kind"])
        for attribute in operator["attributes"]
        if attribute["since"] <= version and (attribute["until"] is None or version <= attribute["until"])
    }
    if ours == theirs:
        return []
    return [f"{operator['name']} {version}: core has {sorted(ours)}, ONNX {sorted(theirs)}"]


def count_differences(operator: dict, version: int) -> list[str]:
    """Compares the most inputs and outputs in one version."""
    schema = schema_of(operator, version)
    if schema is None:
        return []
    newest = [operator["inputs"][1], operator["outputs"]]
    older = next((counts for before, *counts in operator["older"] if version < before), newest)
    theirs = [None if count >= ANY else count for count in (schema.max_input, schema.max_output)]
    return [] if older == theirs else [f"{operator['name']} {version}: core has at most {older}, ONNX {theirs}"]


def form_differences(operator: dict, newest: int) -> list[str]:
    """Compares the newest form, and looks for a change of form after the version that core names."""
    name, since = operator["name"], operator["since"]
    schema, first = schema_of(operator, newest), schema_of(operator, since)
    found = default_differences(operator, schema) + type_differences(operator, schema)
    if first is None or first.since_version != since:
        found.append(f"{name}: ONNX has no version {since}")
    elif set(first.attributes) != set(schema.attributes) or arity(first) != arity(schema):
        found.append(f"{name}: its form has changed since version {since}")
    ours = (*operator["inputs"], operator["outputs"])
    if arity(schema) != ours:
        found.append(f"{name}: core has {ours} as fewest and most inputs and most outputs, ONNX {arity(schema)}")
    return found


def type_differences(operator: dict, schema: defs.OpSchema) -> list[str]:
    """Compares which of the types that not every backend knows the inputs may have."""
    if operator["name"] in WITHOUT_SMALL:
        return []
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    taken = {text for value in schema.inputs for text in allowed.get(value.type_str, [value.type_str])}
    theirs = {ours for ours, name in SMALL.items() if f"tensor({name})" in taken}
    # Lists of texts are inputs in core.
    lists = {"string"} if any(attribute["kind"] == "strings" for attribute in operator["attributes"]) else set()
    if theirs | lists == set(operator["small"]) | lists:
        return []
    return [f"{operator['name']}: core takes {sorted(operator['small'])}, ONNX {sorted(theirs)}"]


def default_differences(operator: dict, schema: defs.OpSchema) -> list[str]:
    """Compares which attributes are required, and the defaults of the others."""
    theirs = {name: (attribute.required, default(attribute)) for name, attribute in schema.attributes.items()}
    ours = {
        attribute["name"]: (attribute["required"], attribute["default"])
        for attribute in operator["attributes"]
        if attribute["until"] is None
    }
    different = sorted(
        name for name in ours if ours[name] != theirs.get(name) and (operator["name"], name) not in BY_DIRECTION
    )
    return [f"{operator['name']}: {name} is {ours[name]} in core, {theirs.get(name)} in ONNX" for name in different]


def default(attribute: defs.OpSchema.Attribute) -> int | float | str | None:
    """Gives the default of an attribute, if it has one."""
    proto = attribute.default_value
    value = helper.get_attribute_value(proto) if proto.name else None
    return value.decode() if isinstance(value, bytes) else value


def arity(schema: defs.OpSchema) -> tuple[int | None, ...]:
    """Gives the fewest and most inputs and the most outputs, None for any number."""
    counts = (schema.min_input, schema.max_input, schema.max_output)
    return tuple(None if count >= ANY else count for count in counts)


if __name__ == "__main__":
    main()
