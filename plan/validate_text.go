package plan

import (
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// ValidNodeID reports whether s may name a node: a name (see ValidID) of at
// most 128 bytes, "#N" with N from 2 for a further node of one skill, "BRANCH/"
// before it for an alternative, and ".CHECK" after it for a check.
func ValidNodeID(s string) bool {
	if branch, rest, ok := strings.Cut(s, "/"); ok {
		if !ValidID(branch) {
			return false
		}
		s = rest
	}
	name, number, numbered := strings.Cut(s, "#")
	if !ValidID(name) {
		return false
	}
	if !numbered {
		return true
	}
	digits, check, checked := strings.Cut(number, ".")
	if checked && !ValidID(check) {
		return false
	}
	if len(digits) == 0 || len(digits) > 6 || digits[0] == '0' || digits == "1" {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// ValidDecimal reports whether s is a canonical decimal number: digits without
// a leading zero, perhaps a fraction without a trailing zero, "-" before a
// number below zero, at most 128 bytes. There is one spelling for each number.
func ValidDecimal(s string) bool {
	if len(s) > 128 || s == "-0" {
		return false
	}
	whole, fraction, hasFraction := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	if whole == "" || len(whole) > 1 && whole[0] == '0' || strings.Trim(whole, "0123456789") != "" {
		return false
	}
	return !hasFraction || fraction != "" && strings.Trim(fraction, "0123456789") == "" && fraction[len(fraction)-1] != '0'
}

// Bounds of relative paths, those of common file systems, and of the work to compare them.
const (
	maxPathBytes = 4096
	maxNameBytes = 255
	maxPathDepth = 100
)

// ValidPath reports whether s is a relative path that stays below its folder on
// every system: UTF-8, clean, slash-separated, without "..", backslashes or
// control characters.
func ValidPath(s string) bool { return pathFault(s) == "" }

// pathFault says what is wrong with a relative path, "" if nothing is.
func pathFault(s string) string {
	switch {
	case s == "" || s == ".":
		return "it is empty"
	case len(s) > maxPathBytes:
		return "it has more than 4096 bytes"
	case s[0] == '/':
		return "it is absolute"
	case s == ".." || strings.HasPrefix(s, "../"):
		return "it leads out of its folder"
	case strings.Count(s, "/") >= maxPathDepth:
		return "it is more than 100 folders deep"
	case path.Clean(s) != s:
		return "it is not clean: " + path.Clean(s) + " is the same"
	case strings.ContainsRune(s, '\\'):
		return "it holds a backslash"
	}
	if fault := textFault(s); fault != "" {
		return fault
	}
	for name := range strings.SplitSeq(s, "/") {
		if len(name) > maxNameBytes {
			return "a name in it has more than 255 bytes"
		}
	}
	if isDrivePath(s) {
		return "it is absolute"
	}
	return ""
}

// textFault refuses what a terminal or a file system could misread: bytes that
// are no UTF-8, control characters and characters that turn the direction.
func textFault(s string) string {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7f {
				return "it holds a control character"
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return "it is not valid UTF-8"
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029:
			return "it holds a control character"
		}
		i += size
	}
	return ""
}

func isDrivePath(s string) bool {
	return len(s) >= 3 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') &&
		(s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z')
}

// foldKey is equal for two names that a file system which folds letter case or
// Unicode forms would take for one.
func foldKey(s string) string {
	ascii := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(s)
	}
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(s)))
}

var (
	imageForm      = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]{1,5})?/)?[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?@(sha256:[0-9a-f]{64})$`)
	hostForm       = regexp.MustCompile(`^(?:\*\.)?[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*(?::[1-9][0-9]{0,4})?$`)
	credentialForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	userForm       = regexp.MustCompile(`^[1-9][0-9]{0,8}:[1-9][0-9]{0,8}$`)
)

// ValidImage reports whether s is an image reference that names one content:
// NAME@sha256:…, or the reserved word builtin. A tag before the digest is
// allowed and says nothing.
func ValidImage(s string) bool {
	return s == ImageBuiltin || len(s) <= 512 && imageForm.MatchString(s)
}

// validPointer reports whether s is a JSON pointer (RFC 6901).
func validPointer(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != '/' || !utf8.ValidString(s) {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}
