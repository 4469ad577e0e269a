"""Counts the test targets of a Bazel run from its build event file: prints `PASSED FAILED`.

Bazel's console summary has no stable form to count from. A test that did not build has no summary event, so the
targets that were asked for are counted, and all of them that have no passing summary have failed.
"""
import json
import sys

asked, good = set(), set()
with open(sys.argv[1], encoding="utf-8") as events:
    for line in events:
        event = json.loads(line)
        identity = event["id"]
        if "targetConfigured" in identity and event.get("configured", {}).get("targetKind", "").endswith("_test rule"):
            asked.add(identity["targetConfigured"]["label"])
        if "testSummary" in identity:
            label = identity["testSummary"]["label"]
            asked.add(label)
            if event.get("testSummary", {}).get("overallStatus") in ("PASSED", "FLAKY"):
                good.add(label)
print(len(good), len(asked - good))
