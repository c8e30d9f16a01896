"""Words of new columns that are computed from others."""

from parsimony_kernel.offline.lexicon.entries import Entry, Words, declined, entries

UNITS = {
    "celsius": "celsius|degrees celsius|centigrade|degrees c|°c",
    "fahrenheit": "fahrenheit|degrees fahrenheit|degrees f|°f",
    "kelvin": "kelvin|degrees kelvin",
    "m/s": "m s|metres per second|meters per second|mps",
    "km/h": "km h|kmh|kph|km per hour|kilometres per hour|kilometers per hour",
    "mph": "mph|miles per hour",
    "knots": "knots|kn",
    "mm": "mm|millimetres|millimeters",
    "cm": "cm|centimetres|centimeters",
    "m": "metres|meters",
    "km": "km|kilometres|kilometers",
    "inches": "inches|inch",
    "feet": "feet|ft",
    "miles": "miles",
    "g": "grams|grammes",
    "kg": "kg|kgs|kilograms|kilogrammes|kilos",
    "lbs": "lbs|lb|pounds",
    "tonnes": "tonnes|metric tons",
}


def _units() -> dict[tuple[str, ...], Entry]:
    found: dict[tuple[str, ...], Entry] = {}
    for unit, names in UNITS.items():
        for name in names.split("|"):
            for link in ("in", "to", "into"):
                found |= entries("in_unit", unit, f"{link} {name}")
            found |= entries("from_unit", unit, f"from {name}")
    return found


_ENTRIES = {
    **_units(),
    **entries("convert", None, "convert"),
    **entries("arith", "-", "minus"),
    **entries("arith", "/", "divided by"),
    **entries("arith", "*", "multiplied by"),
    **entries("derived", "-", "difference between|difference of|differences between"),
    **entries("derived", "/", "ratio|ratio of|ratio between|ratios of"),
    **entries("derived", "*", "product of"),
    **entries("function", "log", "log of|logarithm of|natural log of|natural logarithm of"),
    **entries("function", "log10", "log10 of|base 10 logarithm of|decimal logarithm of"),
    **entries("function", "sqrt", "square root of|sqrt of"),
    **entries("function", "abs", "absolute value of|abs of"),
}
_DECLINED = declined("difference")

WORDS = Words(_ENTRIES, _DECLINED, actions=frozenset({"convert"}))
