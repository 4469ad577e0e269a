"""reasoning_client.py URL: reasoning apart from the answer, by both official clients; SmolLM2 with a template that opens <think>.

A model of this size closes nothing by itself: budgets close its reasoning, so where it ends is certain.
"""
import sys

import anthropic
import openai

url = sys.argv[1]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
claude = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
question = [{"role": "user", "content": "Write a long story about a fox and a hen."}]


def chat(budget=8, **more):
    body = {"reasoning_budget": budget, **more.pop("extra_body", {})}
    return client.chat.completions.create(model="any", messages=question, temperature=0, max_tokens=40, extra_body=body, **more)


answer = chat()
thought, said = answer.choices[0].message.reasoning_content, answer.choices[0].message.content
assert thought and said and "think>" not in thought + said, answer
# The tokens that close it count too, but for the last: "</think>" is several here.
assert 8 <= answer.usage.completion_tokens_details.reasoning_tokens <= 12, answer.usage

# The same in pieces: all of the reasoning before any of the answer.
pieces = [c.choices[0].delta for c in chat(stream=True)]
assert "".join(getattr(d, "reasoning_content", None) or "" for d in pieces) == thought, pieces
assert "".join(d.content or "" for d in pieces) == said, pieces
last_thought = max(i for i, d in enumerate(pieces) if getattr(d, "reasoning_content", None))
first_said = min(i for i, d in enumerate(pieces) if d.content)
assert last_thought < first_said, pieces

# A longer budget goes on where the shorter one was cut; none at all closes at once; not apart, it is part of the answer.
longer = chat(budget=16).choices[0].message.reasoning_content
assert longer.startswith(thought) and len(longer) > len(thought), (thought, longer)
none = chat(budget=0)
assert none.choices[0].message.content and not getattr(none.choices[0].message, "reasoning_content", None), none
assert none.usage.completion_tokens_details.reasoning_tokens == 0
whole = chat(extra_body={"reasoning_format": "none"}).choices[0].message
assert not getattr(whole, "reasoning_content", None) and whole.content.strip().startswith(thought.strip()[:10]), (whole, thought)

# A grammar holds for the answer, not for the reasoning.
yes = chat(extra_body={"grammar": 'root ::= "yes" | "no"'}).choices[0].message
assert yes.content in ("yes", "no") and yes.reasoning_content == thought, yes

message = claude.messages.create(model="any", max_tokens=2000, messages=question, thinking={"type": "enabled", "budget_tokens": 1024},
                                 stop_sequences=["hen"], extra_body={"temperature": 0})
kinds = [block.type for block in message.content]
assert kinds and kinds[0] == "thinking" and message.content[0].thinking, message
with claude.messages.stream(model="any", max_tokens=2000, messages=question, thinking={"type": "enabled", "budget_tokens": 1024},
                            stop_sequences=["hen"], extra_body={"temperature": 0}) as stream:
    final = stream.get_final_message()
assert final.content == message.content, (final, message)
off = claude.messages.create(model="any", max_tokens=20, messages=question, thinking={"type": "disabled"}, extra_body={"temperature": 0})
assert [block.type for block in off.content] == ["text"], off

for wrong in ({"reasoning_format": "loud"}, {"reasoning_budget": -7}):
    try:
        chat(extra_body=wrong)
    except openai.BadRequestError:
        continue
    raise AssertionError(wrong)
print("passed")
