"""The colours of pictures, for style sheets and for matplotlib: told apart with each kind of colour blindness."""

from __future__ import annotations

from pyio_trace.pictures.scales import SHADES

#: Class -> colour.
LIGHT = {
    "io": "#0B5FC4", "sync": "#0A1B4D", "library": "#F59A0C", "handover": "#7A3B85", "waiting": "#C8361A",
    "task": "#20B096", "starting": "#7C8792", "other": "#C3CBD6", "idle": "#E6EAF0", "read": "#0B5FC4",
    "written": "#F59A0C", "mark": "#C8361A", "label": "#1B2430", "muted": "#5B6673", "axis": "#8893A0",
    "grid": "#E3E8EE", "card": "#FFFFFF",
}  # fmt: skip
DARK = {
    "io": "#54BDF7", "sync": "#DDF6FF", "library": "#FFC043", "handover": "#B45CF0", "waiting": "#FF4A2E",
    "task": "#2A9D90", "starting": "#747A88", "other": "#4A525F", "idle": "#2A3038", "read": "#54BDF7",
    "written": "#FFC043", "mark": "#FF4A2E", "label": "#E8EDF3", "muted": "#A5AFBC", "axis": "#6B7684",
    "grid": "#2B333D", "card": "#151A21",
}  # fmt: skip
#: Ends of the shades of a heat map: what is little is close to the ground.
_LIGHT_HEAT, _DARK_HEAT = ("#D6E6F8", "#3C8BDA", "#062A5E"), ("#17324A", "#2E86C1", "#CDEEFF")
_LINES = {"axis": 1.2, "grid": 1}


def heat(ends: tuple[str, str, str]) -> list[str]:
    """SHADES colours over three."""
    found = []
    for shade in range(SHADES):
        place = shade / (SHADES - 1) * 2
        low, high = (ends[0], ends[1]) if place <= 1 else (ends[1], ends[2])
        part = place if place <= 1 else place - 1
        pairs = ((int(low[at : at + 2], 16), int(high[at : at + 2], 16)) for at in (1, 3, 5))
        found.append("#" + "".join(f"{round(one + (other - one) * part):02X}" for one, other in pairs))
    return found


LIGHT |= {f"heat-{shade}": colour for shade, colour in enumerate(heat(_LIGHT_HEAT))}
DARK |= {f"heat-{shade}": colour for shade, colour in enumerate(heat(_DARK_HEAT))}


def css(palette: dict[str, str], scope: str) -> str:
    """Rules for the classes of pictures within what a selector names."""
    rules = []
    for name, colour in palette.items():
        if name in _LINES:
            rules.append(f"{scope} .{name}{{stroke:{colour};stroke-width:{_LINES[name]}}}")
        elif name != "card":
            rules.append(f"{scope} .{name}{{fill:{colour}}}")
            rules.append(f"{scope} .stroke-{name}{{stroke:{colour};stroke-width:1.5}}")
    return "\n".join(rules)
