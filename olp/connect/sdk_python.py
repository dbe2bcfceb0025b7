"""The openai package for Python."""

from __future__ import annotations

import json

from olp.connect.base import Client, Snippet, Target


def _snippets(target: Target) -> tuple[Snippet, ...]:
    base, key, model = (json.dumps(text) for text in (target.base, target.key, target.model))
    text = f"""\
from openai import OpenAI

client = OpenAI(base_url={base}, api_key={key})
answer = client.chat.completions.create(
    model={model},
    messages=[{{"role": "user", "content": "Say hello."}}],
)
print(answer.choices[0].message.content)
"""
    variables = f"OPENAI_BASE_URL={target.base}\nOPENAI_API_KEY={target.key}\n"
    return (
        Snippet("hello.py, after: pip install openai", "python", text),
        Snippet("or the environment, for programs that use the package", "env", variables),
    )


CLIENT = Client("openai-python", "openai (Python)", _snippets)
