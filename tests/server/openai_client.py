"""openai_client.py URL: the official client against a server with SmolLM2 135M Instruct."""
import json
import sys
import urllib.request

import openai

url = sys.argv[1]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
question = [{"role": "user", "content": "What is the capital of France?"}]
right = "The capital of France is Paris."


def chat(**more):
    return client.chat.completions.create(**{"model": "any", "messages": question, "temperature": 0, **more})


def stream_text(stream):
    parts, reasons, usage = [], [], None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            parts.append(choice.delta.content or "")
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    return "".join(parts), reasons, usage


def refused(kind, call, param=None):
    try:
        call()
    except kind as error:
        assert param is None or error.param == param, (error.param, param)
        return error
    raise AssertionError(f"expected {kind.__name__}")


def test_models():
    models = client.models.list().data
    assert len(models) == 1 and client.models.retrieve(models[0].id).id == models[0].id
    refused(openai.NotFoundError, lambda: client.models.retrieve("nothing"))


def test_chat():
    answer = chat()
    assert answer.choices[0].message.content == right and answer.choices[0].finish_reason == "stop", answer
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    text, reasons, usage = stream_text(chat(stream=True, stream_options={"include_usage": True}))
    assert (text, reasons) == (right, ["stop"]) and usage.completion_tokens == answer.usage.completion_tokens
    again = chat()
    assert again.choices[0].message.content == right
    assert again.usage.prompt_tokens_details.cached_tokens > 0, again.usage
    parts = chat(messages=[{"role": "developer", "content": "Be brief."},
                           {"role": "user", "content": [{"type": "text", "text": "What is the capital of"}, {"type": "text", "text": "France?"}]}])
    assert "Paris" in parts.choices[0].message.content, parts
    # What people write is no markup: the message's marks are text, the template's alone are tokens.
    marks = chat(messages=[{"role": "user", "content": "<|im_end|><|im_start|>"}], max_tokens=1).usage.prompt_tokens
    plain = chat(messages=[{"role": "user", "content": "a"}], max_tokens=1).usage.prompt_tokens
    assert marks > plain + 10, (marks, plain)


def test_choices():
    answer = chat(n=3, temperature=1.2, seed=5, max_tokens=12)
    texts = [c.message.content for c in answer.choices]
    assert len(set(texts)) > 1, texts
    assert [c.message.content for c in chat(n=3, temperature=1.2, seed=5, max_tokens=12).choices] == texts
    streamed = {}
    for chunk in chat(n=3, temperature=1.2, seed=5, max_tokens=12, stream=True):
        for c in chunk.choices:
            streamed[c.index] = streamed.get(c.index, "") + (c.delta.content or "")
    assert [streamed[i] for i in range(3)] == texts, (streamed, texts)
    assert answer.usage.completion_tokens <= 36 and answer.choices[0].finish_reason == "length"


def test_stops():
    answer = chat(stop=[" of France", "xyz"])
    assert answer.choices[0].message.content == "The capital" and answer.choices[0].finish_reason == "stop"
    text, reasons, _ = stream_text(chat(stop=" of France", stream=True))
    assert (text, reasons) == ("The capital", ["stop"])


def test_logprobs():
    answer = chat(logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    assert "".join(t.token for t in tokens).startswith(right), tokens
    for t in tokens:
        assert t.logprob <= 0 and len(t.top_logprobs) == 3 and t.top_logprobs[0].token == t.token
        assert bytes(t.bytes).decode() == t.token
    request = urllib.request.Request(url + "/tokenize", b'{"content": " Paris"}', {"Content-Type": "application/json"})
    paris = json.load(urllib.request.urlopen(request))["tokens"]
    assert len(paris) == 1 and "Paris" not in chat(logit_bias={paris[0]: -100}, max_tokens=7).choices[0].message.content


def test_schema():
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "people": {"type": "integer"}},
              "required": ["city", "people"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": schema}}
    answer = json.loads(chat(response_format=form).choices[0].message.content)
    assert list(answer) == ["city", "people"] and isinstance(answer["people"], int), answer
    assert isinstance(json.loads(stream_text(chat(response_format=form, stream=True))[0]), dict)
    any_object = chat(response_format={"type": "json_object"}, max_tokens=200).choices[0]
    assert any_object.finish_reason == "length" or isinstance(json.loads(any_object.message.content), dict)
    yes = chat(extra_body={"grammar": 'root ::= "yes" | "no"'})
    assert yes.choices[0].message.content in ("yes", "no")


def test_completions():
    answer = client.completions.create(model="any", prompt="The capital of France is", max_tokens=4, temperature=0, logprobs=2)
    assert answer.choices[0].text == " Paris.\n\n", answer
    probs = answer.choices[0].logprobs
    assert probs.tokens[0] == " Paris" and probs.text_offset[:2] == [0, 6] and len(probs.top_logprobs[0]) == 2
    both = client.completions.create(model="any", prompt=["The capital of France is", "One, two, three,"], max_tokens=3, temperature=0)
    assert [c.index for c in both.choices] == [0, 1] and both.choices[0].text == " Paris.\n" and " four" in both.choices[1].text, both
    text = "".join(c.choices[0].text for c in client.completions.create(model="any", prompt="The capital of France is", max_tokens=4, temperature=0, stream=True))
    assert text == " Paris.\n\n", text


def test_responses():
    answer = client.responses.create(model="any", input="What is the capital of France?", temperature=0)
    assert answer.output_text == right and answer.status == "completed", answer
    text, kinds = "", []
    for event in client.responses.create(model="any", instructions="You are helpful.", input=question, temperature=0, stream=True):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert "Paris" in text and kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    cut = client.responses.create(model="any", input=question, max_output_tokens=2, temperature=0)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    refused(openai.BadRequestError, lambda: client.responses.create(model="any", input="x", previous_response_id="resp_1"), "previous_response_id")


def test_errors():
    refused(openai.BadRequestError, lambda: chat(messages=[]), "messages")
    refused(openai.BadRequestError, lambda: chat(temperature=-1), "temperature")
    refused(openai.BadRequestError, lambda: chat(top_logprobs=2), "top_logprobs")
    refused(openai.BadRequestError, lambda: chat(extra_body={"nonsense": 1}), "nonsense")
    refused(openai.BadRequestError, lambda: chat(tools=[{"type": "function", "function": {"name": "<f>", "parameters": {}}}]), "tools")
    refused(openai.BadRequestError, lambda: client.completions.create(model="any", prompt="x", suffix="y"), "suffix")
    long = refused(openai.BadRequestError, lambda: chat(messages=[{"role": "user", "content": "word " * 9000}]))
    assert long.code == "context_length_exceeded", long.body
    error = refused(openai.InternalServerError, lambda: client.embeddings.create(model="any", input="x"))
    assert error.status_code == 501
    assert chat().choices[0].message.content == right


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print("passed", name)
