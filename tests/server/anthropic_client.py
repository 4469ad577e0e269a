"""anthropic_client.py URL: the official client against a server with SmolLM2 135M Instruct."""
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0)
question = [{"role": "user", "content": "What is the capital of France?"}]
greedy = {"extra_body": {"temperature": 0}}  # the client has no such argument any more
right = "The capital of France is Paris."


def create(**more):
    return client.messages.create(**{"model": "any", "max_tokens": 50, "messages": question, **greedy, **more})


answer = create()
assert answer.content[0].text == right and answer.stop_reason == "end_turn", answer
assert answer.usage.output_tokens > 0
with client.messages.stream(model="any", max_tokens=50, messages=question, **greedy) as stream:
    assert "".join(stream.text_stream) == right
    final = stream.get_final_message()
    assert final.content[0].text == right and final.stop_reason == "end_turn", final
    assert final.usage.output_tokens == answer.usage.output_tokens
assert "Paris" in create(system="Be brief.", messages=[{"role": "user", "content": [{"type": "text", "text": question[0]["content"]}]}]).content[0].text
cut = create(max_tokens=3)
assert cut.stop_reason == "max_tokens" and cut.usage.output_tokens == 3
stopped = create(stop_sequences=[" of France"])
assert (stopped.content[0].text, stopped.stop_reason, stopped.stop_sequence) == ("The capital", "stop_sequence", " of France"), stopped
begun = create(messages=question + [{"role": "assistant", "content": "The capital of France is"}])
assert begun.content[0].text.strip().startswith("Paris"), begun
count = client.messages.count_tokens(model="any", messages=question)
assert count.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens
for wrong in ({"max_tokens": 0}, {"messages": []}, {"extra_body": {"temperature": -1}}, {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}):
    try:
        create(**wrong)
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error"
    else:
        raise AssertionError(wrong)
print("passed")
