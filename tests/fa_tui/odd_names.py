"""Names of runs as files may have them, that a screen must neither break on nor be steered by."""

WIDE = "方法很长的名字甲乙丙丁"
COMBINING = "de\u0301composed_me\u0301thode"
JOINED = "\U0001f469\u200d\U0001f680_emoji_\u2764\ufe0f"
RIGHT_TO_LEFT = "שיטה_العربية"
LONG = "m" * 200
STEERING = "line\nbreak\ttab\x1b[2J"
OVERRIDING = "abc\u202edcba\u202c"

ODD_NAMES = (WIDE, COMBINING, JOINED, RIGHT_TO_LEFT, LONG, STEERING, OVERRIDING)
