"""OpenAI's chat completions API: decoding of requests, encoding of answers."""

from olp.dialects.openai_chat.answer import (
    StreamEncoder,
    error_body,
    refused_body,
    request_error_body,
    whole,
)
from olp.dialects.openai_chat.dialect import OpenAIChat
from olp.dialects.openai_chat.request import Order, decode, model_in

DIALECT = OpenAIChat()

__all__ = [
    "DIALECT",
    "Order",
    "StreamEncoder",
    "decode",
    "error_body",
    "model_in",
    "refused_body",
    "request_error_body",
    "whole",
]
