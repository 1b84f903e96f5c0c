package sandbox_test

import (
	"errors"
	"strings"
	"testing"

	"foundry/sandbox"
)

func TestCheckLabels(t *testing.T) {
	protocol, pi, tool := sandbox.LabelProtocol, sandbox.LabelHarness+"pi", sandbox.LabelTool+"planemo"
	for name, c := range map[string]struct {
		have, want map[string]string
		problem    string
	}{
		"nothing asked":         {},
		"all there":             {have: map[string]string{protocol: "2", pi: "0.84.4", "other": "x"}, want: map[string]string{protocol: "2", pi: "0.84.4"}},
		"any version":           {have: map[string]string{tool: "0.75"}, want: map[string]string{tool: ""}},
		"other protocol":        {have: map[string]string{protocol: "1"}, problem: protocol + " = 1"},
		"empty protocol":        {have: map[string]string{protocol: ""}, problem: protocol},
		"protocol not stated":   {have: map[string]string{pi: "0.84.4"}, want: map[string]string{protocol: "2"}, problem: "no label " + protocol},
		"other version":         {have: map[string]string{pi: "1.6.0"}, want: map[string]string{pi: "0.84.4"}, problem: "1.6.0, and 0.84.4"},
		"no such tool":          {have: map[string]string{pi: "1.6.0"}, want: map[string]string{tool: ""}, problem: "no label " + tool},
		"the first in order":    {want: map[string]string{tool: "", pi: ""}, problem: "no label " + pi},
		"wrong in another case": {have: map[string]string{strings.ToUpper(pi): "1"}, want: map[string]string{pi: "1"}, problem: "no label"},
	} {
		t.Run(name, func(t *testing.T) {
			err := sandbox.CheckLabels("x@sha256:0", c.have, c.want)
			if c.problem == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			mismatch, ok := errors.AsType[*sandbox.ImageMismatch](err)
			if !ok || !strings.Contains(mismatch.Error(), c.problem) || mismatch.Fix == "" || !strings.Contains(mismatch.Error(), "x@sha256:0") {
				t.Fatalf("got %v", err)
			}
		})
	}
}
