#!/usr/bin/env python3
"""A conversation with a model in a shared library, through ctypes: see README.md.

    chat.py LIBRARY [TEXT...]      each TEXT is a message of yours; without one, lines are read from the terminal
"""
import ctypes as c
import sys

PREFIX = "smollm2"


class SessionOptions(c.Structure):
    _fields_ = [("size", c.c_size_t)] + [
        (name, c.c_uint32) for name in ("n_ctx", "n_seqs", "n_batch", "n_outputs", "kv_type", "threads")
    ] + [("pool", c.c_void_p), ("allocator", c.c_void_p)]


class Message(c.Structure):
    _fields_ = [("role", c.c_char_p), ("content", c.c_char_p)]


class Chat(c.Structure):
    _fields_ = [("size", c.c_size_t), ("messages", c.POINTER(Message)), ("n_messages", c.c_size_t),
                ("json", c.c_char_p), ("json_bytes", c.c_size_t), ("add_generation_prompt", c.c_int32),
                ("now", c.c_int64), ("utc_offset", c.c_int64)]


class GeneratorOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("seq", c.c_uint32), ("max_tokens", c.c_int64),
                ("stops", c.POINTER(c.c_char_p)), ("n_stops", c.c_size_t), ("ignore_end", c.c_int32),
                ("show_special", c.c_int32), ("grammar", c.c_char_p), ("json_schema", c.c_char_p)]


ON_TOKEN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int32, c.POINTER(c.c_char), c.c_size_t)


class Model:
    def __init__(self, path):
        self.library = c.CDLL(path)
        self.handle = c.c_void_p()
        self.call("model_open", None, c.byref(self.handle))

    def function(self, name, result=c.c_int):
        f = getattr(self.library, f"{PREFIX}_{name}")
        f.restype = result
        return f

    def call(self, name, *arguments):
        """Of the functions that end with a message buffer."""
        why = c.create_string_buffer(256)
        if self.function(name)(*arguments, why, c.c_size_t(len(why))) != 0:
            raise RuntimeError(f"{name}: {why.value.decode()}")

    def options(self, kind, *model, **values):
        options = kind[0]()
        self.function(kind[1], None)(*model, c.byref(options))
        for name, value in values.items():
            setattr(options, name, value)
        return options

    def chat_tokens(self, messages):
        rows = (Message * len(messages))(*[(role.encode(), content.encode()) for role, content in messages])
        chat = self.options((Chat, "chat_init"), messages=rows, n_messages=len(messages))
        ids, n = (c.c_int32 * 8192)(), c.c_size_t()
        self.call("chat_tokens", self.handle, c.byref(chat), ids, c.c_size_t(len(ids)), c.byref(n))
        return ids[:n.value]


class Conversation:
    def __init__(self, model, **session):
        self.model, self.messages = model, []
        options = model.options((SessionOptions, "session_options_init"), **session)
        self.session, self.generator = c.c_void_p(), c.c_void_p()
        model.call("session_create", model.handle, c.byref(options), c.byref(self.session))
        limits = model.options((GeneratorOptions, "generator_options_init"), max_tokens=200)
        model.call("generator_create", self.session, None, c.byref(limits), c.byref(self.generator))

    def say(self, text, show):
        """The answer, shown piece by piece. What the model has read of the conversation is not read again."""
        self.messages.append(("user", text))
        pieces = []

        def on_token(_user, _id, piece, n):
            pieces.append(piece[:n])
            show(piece[:n].decode("utf-8", "replace"))
            return 0

        ids = self.model.chat_tokens(self.messages)
        if self.model.function("generate_whole")(self.generator, (c.c_int32 * len(ids))(*ids),
                                                 c.c_size_t(len(ids)), ON_TOKEN(on_token), None, None) != 0:
            raise RuntimeError(self.model.function("session_error", c.c_char_p)(self.session).decode())
        self.messages.append(("assistant", b"".join(pieces).decode("utf-8", "replace")))
        return self.messages[-1][1]

    def close(self):
        self.model.function("generator_free", None)(self.generator)
        self.model.function("session_free", None)(self.session)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    conversation = Conversation(Model(sys.argv[1]), n_ctx=2048)
    for text in sys.argv[2:] or iter(lambda: input("> "), ""):
        conversation.say(text, lambda piece: print(piece, end="", flush=True))
        print()
    conversation.close()


if __name__ == "__main__":
    main()
