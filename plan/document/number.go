package document

import (
	"fmt"
	"strings"
)

// Bounds of a number. "1e100000000" is eleven bytes and would take minutes and
// a gigabyte to write out; 1,000 digits are far above what anything counts.
const (
	MaxDigits   = 1000 // of the text, and of the canonical form
	MaxExponent = 400  // by absolute value
)

// CanonicalNumber returns the one decimal form of a number: no exponent, no
// plus sign, no needless zero, and "0" for every zero. It accepts what JSON
// and YAML write ("1e3", "+.5", "007", "1."), and gives its own results back
// unchanged. It refuses everything else, among it NaN and infinities, and
// numbers beyond MaxDigits or MaxExponent.
func CanonicalNumber(s string) (string, error) {
	n, err := splitNumber(s)
	if err != nil {
		return "", err
	}
	digits := n.whole + n.fraction
	point := len(n.whole) + n.exponent // where the point stands in digits
	lead := len(digits) - len(strings.TrimLeft(digits, "0"))
	digits, point = digits[lead:], point-lead
	digits = strings.TrimRight(digits, "0")
	if digits == "" {
		return "0", nil
	}
	var b strings.Builder
	if n.negative {
		b.WriteByte('-')
	}
	switch {
	case point <= 0:
		if len(digits)-point > MaxDigits {
			return "", numberError(s, fmt.Sprintf("it has more than %d digits", MaxDigits))
		}
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -point))
		b.WriteString(digits)
	case point >= len(digits):
		if point > MaxDigits {
			return "", numberError(s, fmt.Sprintf("it has more than %d digits", MaxDigits))
		}
		b.WriteString(digits)
		b.WriteString(strings.Repeat("0", point-len(digits)))
	default:
		b.WriteString(digits[:point])
		b.WriteByte('.')
		b.WriteString(digits[point:])
	}
	return b.String(), nil
}

type numberParts struct {
	negative        bool
	whole, fraction string // digits; not both empty
	exponent        int
}

func splitNumber(s string) (numberParts, error) {
	var n numberParts
	rest := s
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		n.negative = rest[0] == '-'
		rest = rest[1:]
	}
	n.whole, rest = leadingDigits(rest)
	if strings.HasPrefix(rest, ".") {
		n.fraction, rest = leadingDigits(rest[1:])
	}
	if n.whole == "" && n.fraction == "" {
		return n, numberError(s, "it is no decimal number")
	}
	if len(n.whole)+len(n.fraction) > MaxDigits {
		return n, numberError(s, fmt.Sprintf("it has more than %d digits", MaxDigits))
	}
	if rest == "" {
		return n, nil
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return n, numberError(s, "it is no decimal number")
	}
	rest = rest[1:]
	sign := 1
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		if rest[0] == '-' {
			sign = -1
		}
		rest = rest[1:]
	}
	exp, rest := leadingDigits(rest)
	if exp == "" || rest != "" {
		return n, numberError(s, "it is no decimal number")
	}
	for _, c := range []byte(exp) {
		n.exponent = n.exponent*10 + int(c-'0')
		if n.exponent > MaxExponent {
			return n, numberError(s, fmt.Sprintf("its exponent is beyond %d", MaxExponent))
		}
	}
	n.exponent *= sign
	return n, nil
}

func leadingDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

func numberError(s, why string) error {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return fmt.Errorf("number %q: %s", strings.ToValidUTF8(s, "\uFFFD"), why)
}

// CompareNumbers compares two numbers in canonical form exactly: -1, 0 or 1.
// For other text its result means nothing.
func CompareNumbers(a, b string) int {
	aNeg, bNeg := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case aNeg && !bNeg:
		return -1
	case bNeg && !aNeg:
		return 1
	case aNeg:
		return compareMagnitudes(b[1:], a[1:])
	default:
		return compareMagnitudes(a, b)
	}
}

func compareMagnitudes(a, b string) int {
	aWhole, aFraction, _ := strings.Cut(a, ".")
	bWhole, bFraction, _ := strings.Cut(b, ".")
	if len(aWhole) != len(bWhole) {
		if len(aWhole) < len(bWhole) {
			return -1
		}
		return 1
	}
	if c := strings.Compare(aWhole, bWhole); c != 0 {
		return c
	}
	return strings.Compare(aFraction, bFraction)
}
