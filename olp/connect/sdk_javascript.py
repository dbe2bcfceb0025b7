"""The openai package for JavaScript."""

from __future__ import annotations

import json

from olp.connect.base import Client, Snippet, Target


def _snippets(target: Target) -> tuple[Snippet, ...]:
    base, key, model = (json.dumps(text) for text in (target.base, target.key, target.model))
    text = f"""\
import OpenAI from "openai";

const client = new OpenAI({{ baseURL: {base}, apiKey: {key} }});
const answer = await client.chat.completions.create({{
  model: {model},
  messages: [{{ role: "user", content: "Say hello." }}],
}});
console.log(answer.choices[0].message.content);
"""
    return (Snippet("hello.mjs, after: npm install openai", "javascript", text),)


CLIENT = Client("openai-js", "openai (JavaScript)", _snippets)
