package policy

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"foundry/compile/internal/diag"
)

// Bounds of units.
const (
	maxWall = 365 * 24 * 3600 // seconds: a year
	maxCPU  = 1024            // cores
	maxPIDs = 4_194_304       // the kernel's own bound, PID_MAX_LIMIT
)

// number reads a number attribute.
func (d *decoder) number(a *hclsyntax.Attribute) (*big.Float, diag.Range, bool) {
	at := At(a.Expr.Range())
	v, ok := d.value(a.Expr)
	if !ok {
		return nil, at, false
	}
	if kind(v) != "number" {
		hint := ""
		if kind(v) == "string" {
			hint = " Write it without quotes and units."
		}
		d.errorf(at, "Wrong type", "%q takes a number; this is %s.%s%s", a.Name, aKind(v), nullHint(v), hint)
		return nil, at, false
	}
	return v.AsBigFloat(), at, true
}

// integer reads a whole number from min to max.
func integer(lo, hi int64) value[Int] {
	kind := fmt.Sprintf("whole number from %d", lo)
	if hi != math.MaxInt64 {
		kind += fmt.Sprintf(" to %d", hi)
	}
	return value[Int]{kind, func(d *decoder, a *hclsyntax.Attribute) Int {
		f, at, ok := d.number(a)
		if !ok {
			return Int{At: at}
		}
		n, acc := f.Int64()
		if acc != big.Exact || n < lo || n > hi {
			d.errorf(at, "Number out of range", "%q takes a whole number from %d to %d; this is %s.", a.Name, lo, hi, brief(f))
			return Int{At: at}
		}
		return Int{n, at}
	}}
}

// brief shows a number in a message.
func brief(f *big.Float) string {
	if s := f.Text('f', -1); len(s) <= 40 {
		return s
	}
	return f.Text('g', 10)
}

// cpus reads a number of cores into thousandths.
var cpus = value[Int]{"number of cores, at least 0.001", func(d *decoder, a *hclsyntax.Attribute) Int {
	f, at, ok := d.number(a)
	if !ok {
		return Int{At: at}
	}
	// 0.1 is not a binary fraction, so exactness is asked of the decimal form.
	s := f.Text('f', -1)
	whole, frac, _ := strings.Cut(s, ".")
	w, err := strconv.ParseInt(whole, 10, 32)
	m, err2 := strconv.ParseInt((frac + "000")[:3], 10, 32)
	n := w*1000 + m
	if err != nil || err2 != nil || len(frac) > 3 || n < 1 || n > maxCPU*1000 || f.Sign() <= 0 {
		d.errorf(at, "Number out of range", "%q takes a number of cores from 0.001 to %d, with at most 3 decimals; this is %s.", a.Name, maxCPU, brief(f))
		return Int{At: at}
	}
	return Int{n, at}
}}

// unit reads a string with a unit into an integer.
func unit(kind, example string, parse func(string) (int64, string)) value[Int] {
	return value[Int]{kind, func(d *decoder, a *hclsyntax.Attribute) Int {
		i := Int{At: At(a.Expr.Range())}
		s, marked, ok := literalOr(d, a)
		if !ok {
			return i
		}
		if v, isNumber := s.(*big.Float); isNumber {
			d.errorf(i.At, "Number without a unit", "%q takes a string with its unit, such as %s = %s; this is the number %s.", a.Name, a.Name, example, brief(v))
			return i
		}
		if marked {
			d.errorf(i.At, "Path outside a path", pathElsewhere)
			return i
		}
		n, problem := parse(s.(string))
		if problem != "" {
			d.errorf(i.At, "Invalid value", "%s = %q: %s", a.Name, s, problem)
			return i
		}
		i.Value = n
		return i
	}}
}

// literalOr reads a string, or a number for a better message.
func literalOr(d *decoder, a *hclsyntax.Attribute) (v any, marked, ok bool) {
	if s, ok := literal(a.Expr); ok {
		return s, false, true
	}
	c, ok := d.value(a.Expr)
	if !ok {
		return nil, false, false
	}
	if kind(c) == "number" {
		return c.AsBigFloat(), false, true
	}
	return d.asString(c, a.Expr, a.Name)
}

var (
	duration = unit("duration, such as \"10m\"", `"10m"`, parseDuration)
	size     = unit("size, such as \"64MiB\"", `"64MiB"`, parseSize)
	money    = value[Int]{"USD as a string, such as \"3.00\"", func(d *decoder, a *hclsyntax.Attribute) Int {
		return d.money(a)
	}}
)

func (d *decoder) money(a *hclsyntax.Attribute) Int {
	i := Int{At: At(a.Expr.Range())}
	s, marked, ok := literalOr(d, a)
	switch {
	case !ok:
	case marked:
		d.errorf(i.At, "Path outside a path", pathElsewhere)
	default:
		if f, isNumber := s.(*big.Float); isNumber {
			d.errorf(i.At, "Money as a number", "%q takes a decimal string, so that no cent is lost to binary fractions: write %s = %q.", a.Name, a.Name, brief(f))
			return i
		}
		n, problem := parseMoney(s.(string))
		if problem != "" {
			d.errorf(i.At, "Invalid value", "%s = %q: %s", a.Name, s, problem)
		}
		i.Value = n
	}
	return i
}

var durationForm = regexp.MustCompile(`^(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?$`)

// parseDuration reads "2h", "10m", "1h30m" into seconds.
func parseDuration(s string) (int64, string) {
	m := durationForm.FindStringSubmatch(s)
	if m == nil || s == "" {
		return 0, `a duration is whole hours, minutes and seconds in this order, such as "2h", "10m" or "1h30m".`
	}
	var total int64
	for i, seconds := range []int64{3600, 60, 1} {
		if m[i+1] != "" {
			n, _ := strconv.ParseInt(m[i+1], 10, 64) // at most 9 digits
			total += n * seconds
		}
	}
	if total < 1 || total > maxWall {
		return 0, `a duration is from "1s" to "8760h".`
	}
	return total, ""
}

var sizeForm = regexp.MustCompile(`^([0-9]{1,18})(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$`)

var sizeUnits = map[string]int64{
	"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// parseSize reads "64MiB" or "500KB" into bytes.
func parseSize(s string) (int64, string) {
	m := sizeForm.FindStringSubmatch(s)
	if m == nil {
		return 0, `a size is a whole number and one of B, KB, MB, GB, TB (thousands) or KiB, MiB, GiB, TiB (1024s), such as "64MiB".`
	}
	n, _ := strconv.ParseInt(m[1], 10, 64) // at most 18 digits
	u := sizeUnits[m[2]]
	if n < 1 || n > math.MaxInt64/u {
		return 0, "a size is from 1B to 2^63-1 bytes."
	}
	return n * u, ""
}

var moneyForm = regexp.MustCompile(`^([0-9]{1,12})(?:\.([0-9]{1,6}))?$`)

// parseMoney reads "3.00" into millionths of a dollar.
func parseMoney(s string) (int64, string) {
	m := moneyForm.FindStringSubmatch(s)
	if m == nil {
		return 0, `an amount is US dollars with a point and at most 6 decimals, without sign, such as "3.00".`
	}
	whole, _ := strconv.ParseInt(m[1], 10, 64) // at most 12 digits
	micro, _ := strconv.ParseInt((m[2] + "000000")[:6], 10, 64)
	return whole*1_000_000 + micro, ""
}

var priceForm = regexp.MustCompile(`^([0-9]{1,9})(?:\.([0-9]{1,9}))?$`)

// parsePrice makes a decimal string canonical: "03.750" becomes "3.75".
func parsePrice(s string) (string, string) {
	m := priceForm.FindStringSubmatch(s)
	if m == nil {
		return "", `a price is US dollars for a million tokens, with a point and at most 9 decimals, without sign, such as "3.00".`
	}
	whole := strings.TrimLeft(m[1], "0")
	if whole == "" {
		whole = "0"
	}
	if frac := strings.TrimRight(m[2], "0"); frac != "" {
		return whole + "." + frac, ""
	}
	return whole, ""
}

// priceKeys are the keys of a model's price; the first two are always needed.
var priceKeys = []string{"input", "output", "cache_read", "cache_write"}

// price reads a model's price object.
func price(d *decoder, target any, a *hclsyntax.Attribute) {
	m := target.(*Model)
	places := map[string]hclsyntax.Expression{}
	if o, ok := a.Expr.(*hclsyntax.ObjectConsExpr); ok {
		for _, item := range o.Items {
			if name, ok := KeyName(item.KeyExpr); ok {
				places[name] = item.ValueExpr
			}
		}
	}
	v, ok := d.value(a.Expr)
	if !ok {
		return
	}
	at := At(a.Expr.Range())
	if kind(v) != "object" {
		d.errorf(at, "Wrong type", "\"price\" takes an object, such as { input = \"3.00\", output = \"15.00\" }; this is %s.%s", aKind(v), nullHint(v))
		return
	}
	for it := v.ElementIterator(); it.Next(); {
		k, p := it.Element()
		name := k.AsString()
		x := places[name]
		if x == nil {
			x = a.Expr
		}
		d.onePrice(m, name, p, x)
	}
	for _, name := range priceKeys[:2] {
		if !v.Type().HasAttribute(name) {
			d.errorf(at, "Missing price", "The price of a model needs %q: what is not known must not count as free.", name)
		}
	}
}

func (d *decoder) onePrice(m *Model, name string, p cty.Value, x hclsyntax.Expression) {
	fields := map[string]*Text{"input": &m.Input, "output": &m.Output, "cache_read": &m.CacheRead, "cache_write": &m.CacheWrite}
	at := At(x.Range())
	field := fields[name]
	if field == nil {
		d.errorf(at, "Unknown word", "A price has no %q.%s It has: %s.", name, diag.DidYouMean(name, priceKeys), diag.OneOf(priceKeys))
		return
	}
	field.At = at
	if kind(p) == "number" {
		d.errorf(at, "Money as a number", "%q takes a decimal string, so that no cent is lost to binary fractions: write %s = %q.", name, name, brief(p.AsBigFloat()))
		return
	}
	s, _, ok := d.asString(p, x, name)
	if !ok {
		return
	}
	canonical, problem := parsePrice(s)
	if problem != "" {
		d.errorf(at, "Invalid value", "%s = %q: %s", name, s, problem)
	}
	field.Value = canonical
}
