package plan

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

var sizes = []int{100, 1_000, 10_000}

func BenchmarkEncode(b *testing.B) {
	for _, n := range sizes {
		p := chain(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				data, err := Encode(p)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(data)))
			}
		})
	}
}

// BenchmarkEncodeBesideMarshalIndent takes turns with encoding/json, so that
// both see the same machine, and reports how often theirs takes our time.
func BenchmarkEncodeBesideMarshalIndent(b *testing.B) {
	for _, n := range sizes {
		p := chain(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var ours, theirs time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := Encode(p); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				if _, err := json.MarshalIndent(p, "", "  "); err != nil {
					b.Fatal(err)
				}
				ours += middle.Sub(start)
				theirs += time.Since(middle)
			}
			b.ReportMetric(float64(theirs)/float64(ours), "stdlib/ours")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range sizes {
		data, err := Encode(chain(n))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := Decode(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, n := range sizes {
		p := chain(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if problems := Validate(p); len(problems) > 0 {
					b.Fatal(problems[0])
				}
			}
		})
	}
}
