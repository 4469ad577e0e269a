"""tools_client.py URL: calls of functions, by both official clients; SmolLM2 with a template in the manner of Hermes, with one
whose calls are tags, and with its own, which knows no tools.

A model of this size calls nothing sensible by itself; that what it says is taken apart rightly is tested elsewhere
(tests/output). Here calls are forced, so their form is certain whatever the model thinks.
"""
import json
import sys

import anthropic
import openai

url = sys.argv[1]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
claude = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
question = [{"role": "user", "content": "What is the weather in Paris, and what is 12 times 30?"}]
weather = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"], "additionalProperties": False}
product = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 99}, "b": {"type": "integer", "maximum": 99}}, "required": ["a", "b"], "additionalProperties": False}
tools = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": weather}},
         {"type": "function", "function": {"name": "multiply", "description": "The product of two numbers.", "parameters": product}}]
named = {"type": "function", "function": {"name": "multiply"}}


def fits(name, arguments):
    if name == "get_weather":
        assert list(arguments) == ["city", "unit"] and arguments["unit"] in ("C", "F") and len(arguments["city"]) <= 20, arguments
    else:
        assert name == "multiply" and list(arguments) == ["a", "b"] and all(isinstance(x, int) and x <= 99 for x in arguments.values()), arguments


def chat(**more):
    return client.chat.completions.create(**{"model": "any", "messages": question, "tools": tools, "temperature": 0, **more})


def streamed(**more):
    calls, reasons = {}, []
    for chunk in chat(stream=True, **more):
        choice = chunk.choices[0]
        assert not choice.delta.content, chunk
        for piece in choice.delta.tool_calls or []:
            call = calls.setdefault(piece.index, {"id": None, "name": None, "arguments": ""})
            if piece.id:
                assert call["id"] is None and piece.type == "function"
                call.update(id=piece.id, name=piece.function.name)
            call["arguments"] += piece.function.arguments
        if choice.finish_reason:
            reasons.append(choice.finish_reason)
    return calls, reasons


for choice in ("required", named):
    for seed in range(3):
        more = {"tool_choice": choice, "temperature": 0.8, "seed": seed, "max_tokens": 200}
        answer = chat(**more).choices[0]
        assert answer.finish_reason == "tool_calls" and answer.message.content is None and len(answer.message.tool_calls) == 1, answer
        call = answer.message.tool_calls[0]
        assert call.id.startswith("call_") and call.type == "function"
        fits(call.function.name, json.loads(call.function.arguments))
        assert choice != named or call.function.name == "multiply"
        calls, reasons = streamed(**more)
        assert reasons == ["tool_calls"] and list(calls) == [0], (calls, reasons)
        assert (calls[0]["name"], calls[0]["arguments"]) == (call.function.name, call.function.arguments), (calls, call)

# The answer to a call, and what follows it.
call = chat(tool_choice=named).choices[0].message
after = chat(messages=question + [call.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "360"}],
             tool_choice="none", max_tokens=30).choices[0]
assert after.message.content and not after.message.tool_calls, after
assert chat(tool_choice="auto", parallel_tool_calls=False, max_tokens=20).choices[0].finish_reason in ("length", "stop", "tool_calls")
for wrong in ({"tool_choice": {"type": "function", "function": {"name": "nothing"}}}, {"tool_choice": "sometimes"}, {"response_format": {"type": "json_object"}},
              {"tools": [{"type": "function", "function": {"name": "<|im_end|>", "parameters": {}}}]}):
    try:
        chat(**wrong)
    except openai.BadRequestError:
        continue
    raise AssertionError(wrong)

flat = [{"type": "function", "name": t["function"]["name"], "parameters": t["function"]["parameters"]} for t in tools]
answer = client.responses.create(model="any", input=question, tools=flat, tool_choice="required", temperature=0)
call = next(item for item in answer.output if item.type == "function_call")
fits(call.name, json.loads(call.arguments))
events = list(client.responses.create(model="any", input=question, tools=flat, tool_choice="required", temperature=0, stream=True))
assert "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta") == call.arguments, events
again = client.responses.create(model="any", tools=flat, tool_choice="none", max_output_tokens=20, input=question + [
    call.model_dump(exclude_none=True), {"type": "function_call_output", "call_id": call.call_id, "output": "360"}])
assert again.output_text

theirs = [{"name": t["function"]["name"], "input_schema": t["function"]["parameters"]} for t in tools]
message = claude.messages.create(model="any", max_tokens=200, messages=question, tools=theirs, tool_choice={"type": "any"}, extra_body={"temperature": 0})
use = message.content[0]
assert message.stop_reason == "tool_use" and use.type == "tool_use", message
fits(use.name, use.input)
with claude.messages.stream(model="any", max_tokens=200, messages=question, tools=theirs, tool_choice={"type": "any"}, extra_body={"temperature": 0}) as stream:
    final = stream.get_final_message()
assert (final.content[0].name, final.content[0].input) == (use.name, use.input), (final, message)
reply = claude.messages.create(model="any", max_tokens=20, tools=theirs, tool_choice={"type": "none"}, messages=question + [
    {"role": "assistant", "content": [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "360"}]}])
assert reply.content[0].type == "text", reply
print("passed")
