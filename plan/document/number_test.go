package document

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCanonicalNumber(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "+0": "0", "0.000": "0", "-0.0e9": "0", "0e400": "0",
		"1": "1", "+1": "1", "007": "7", "-1": "-1", "10": "10", "1.": "1", ".5": "0.5", "-.50": "-0.5",
		"1e3": "1000", "1E+3": "1000", "1e-3": "0.001", "1.5e1": "15", "1.25e1": "12.5", "100e-2": "1", "120e-2": "1.2",
		"9007199254740993": "9007199254740993", "9223372036854775808": "9223372036854775808", "1.0": "1",
		"1e400":                                 "1" + strings.Repeat("0", 400),
		"1e-400":                                "0." + strings.Repeat("0", 399) + "1",
		strings.Repeat("9", 1000):               strings.Repeat("9", 1000),
		"1" + strings.Repeat("0", 599) + "e400": "1" + strings.Repeat("0", 999),
	} {
		got, err := CanonicalNumber(in)
		if err != nil || got != want {
			t.Errorf("%.40s: got %.40s, %v, want %.40s", in, got, err, want)
			continue
		}
		if again, err := CanonicalNumber(got); err != nil || again != got {
			t.Errorf("%.40s: the canonical form becomes %.40s, %v", in, again, err)
		}
	}
	for in, words := range map[string]string{
		"": "no decimal", "-": "no decimal", "+-1": "no decimal", ".": "no decimal", "e5": "no decimal", ".e5": "no decimal",
		"1e": "no decimal", "1e+": "no decimal", "1e5.5": "no decimal", "1 ": "no decimal", " 1": "no decimal", "1_000": "no decimal",
		"0x10": "no decimal", "NaN": "no decimal", "Inf": "no decimal", "-Infinity": "no decimal", "1,5": "no decimal", "١": "no decimal", "\xff": "no decimal",
		"1e401": "beyond 400", "1e-401": "beyond 400", "1e100000000": "beyond 400", "1e" + strings.Repeat("9", 10_000): "beyond 400",
		strings.Repeat("9", 1001):                  "1000 digits",
		"1" + strings.Repeat("0", 999) + "e1":      "1000 digits",
		"0." + strings.Repeat("0", 900) + "1e-400": "1000 digits",
	} {
		if got, err := CanonicalNumber(in); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%.40q: got %q, %v, want the refusal %q", in, got, err, words)
		}
	}
}

// numberText makes numbers as people and programs write them.
func numberText(t *rapid.T, label string) string {
	return rapid.StringMatching(`[-+]?([0-9]{1,12}|[0-9]{1,8}\.[0-9]{0,8}|\.[0-9]{1,6})([eE][-+]?[0-9]{1,2})?`).Draw(t, label)
}

func TestNumbersAgreeWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := [2]string{numberText(t, "a"), numberText(t, "b")}
		if rapid.Bool().Draw(t, "near") {
			texts[1] = texts[0] + rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "tail")
		}
		var canonical [2]string
		var rats [2]*big.Rat
		for i, s := range texts {
			r, ok := new(big.Rat).SetString(s)
			c, err := CanonicalNumber(s)
			if err != nil {
				if ok && !strings.Contains(err.Error(), "beyond") {
					t.Fatalf("%s: %v", s, err)
				}
				t.Skip("beyond the bound")
			}
			again, ok2 := new(big.Rat).SetString(c)
			if !ok || !ok2 || r.Cmp(again) != 0 {
				t.Fatalf("%s became %s", s, c)
			}
			canonical[i], rats[i] = c, r
		}
		if got, want := CompareNumbers(canonical[0], canonical[1]), rats[0].Cmp(rats[1]); got != want {
			t.Fatalf("compare %s with %s: got %d, want %d", canonical[0], canonical[1], got, want)
		}
		if (canonical[0] == canonical[1]) != (rats[0].Cmp(rats[1]) == 0) {
			t.Fatalf("%s and %s: equal text is not equal value", canonical[0], canonical[1])
		}
	})
}

// Tiny text must not become huge work: each of these would take minutes if the
// number were ever written out.
func TestNumbersAreBounded(t *testing.T) {
	start := time.Now()
	for _, s := range []string{"1e100000000", "-1e-100000000", "1e" + strings.Repeat("9", 1_000_000), strings.Repeat("9", 10_000_000)} {
		if _, err := CanonicalNumber(s); err == nil {
			t.Errorf("%.20s is accepted", s)
		}
		if _, err := ParseJSON([]byte(s), Limits{}); err == nil {
			t.Errorf("%.20s is accepted in JSON", s)
		}
		if _, err := ParseYAML([]byte(s), Limits{}); err == nil {
			t.Errorf("%.20s is accepted in YAML", s)
		}
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("took %v", d)
	}
}
