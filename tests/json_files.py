"""JSON files that tests write and read."""

import json


def put_json(path, value):
    """Write a value as JSON; the path."""
    path.write_text(json.dumps(value))
    return path


def json_of(path):
    """What a JSON file holds."""
    return json.loads(path.read_text())
