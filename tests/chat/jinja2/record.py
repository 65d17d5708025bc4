#!/usr/bin/env python3
"""Records what Python's Jinja2, set up as `transformers` does, makes of the templates in recorded.jsonl.

The first line of the file is the context. Each further line is a list: a template, and its text, or null where Jinja2 raises an
error. To add cases, append lines such as ["{{ 1 + 1 }}"] and run `record.py` (it needs `pip install jinja2==3.1.6`).
"""
import json
import os
import warnings
from datetime import datetime

import jinja2
import jinja2.ext
import jinja2.sandbox

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.jsonl")


class Generation(jinja2.ext.Extension):
    """The tag of training templates: its body as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    extensions = [Generation, jinja2.ext.loopcontrols]
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def recorded(template, context):
    try:
        return environment().from_string(template).render(**context)
    except Exception:
        return None


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with open(PATH, encoding="utf-8") as file:
        context, *cases = [json.loads(line) for line in file]
    lines = [context] + [[case[0], recorded(case[0], context)] for case in cases]
    with open(PATH, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
