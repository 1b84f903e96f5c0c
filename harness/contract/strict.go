package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// DecodeStrict reads one JSON document into v, a pointer to a zero struct.
// Keys must have the exact case of the field's tag; unknown, duplicate and
// null ones are refused, and so are a missing key whose tag has no omitempty,
// invalid UTF-8 and anything after the document. Go's own decoder folds case,
// takes the last of duplicates and cannot tell a missing number from 0.
//
// It knows structs, string-keyed maps, slices, pointers, strings, booleans and
// integers; nesting is bounded by the type.
func DecodeStrict(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := walk(dec, reflect.TypeOf(v).Elem(), ""); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON document")
	}
	return json.Unmarshal(data, v)
}

// walk reads one value of type t; at is its place, "" for the document.
func walk(dec *json.Decoder, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	tok, err := dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("not JSON: %w", err)
	}
	ok := false
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		if tok == json.Delim('{') {
			return walkObject(dec, t, at)
		}
	case reflect.Slice:
		if tok == json.Delim('[') {
			for i := 0; dec.More(); i++ {
				if err := walk(dec, t.Elem(), fmt.Sprintf("%s/%d", at, i)); err != nil {
					return err
				}
			}
			return closing(dec)
		}
	case reflect.String:
		_, ok = tok.(string)
	case reflect.Bool:
		_, ok = tok.(bool)
	case reflect.Int, reflect.Int64:
		_, ok = tok.(json.Number)
	}
	if !ok {
		return fmt.Errorf("%s is %s, not %s", place(at), tokenKind(tok), typeWord(t))
	}
	return nil
}

// walkObject reads an object after its opening brace.
func walkObject(dec *json.Decoder, t reflect.Type, at string) error {
	fields, required := keysOf(t)
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		key, _ := tok.(string)
		if seen[key] {
			return fmt.Errorf("%s has the key %q twice", place(at), key)
		}
		seen[key] = true
		elem := t
		if t.Kind() == reflect.Map {
			elem = t.Elem()
		} else if elem = fields[key]; elem == nil {
			return fmt.Errorf("%s has the unknown key %q", place(at), key)
		}
		if err := walk(dec, elem, at+"/"+key); err != nil {
			return err
		}
	}
	for _, key := range required {
		if !seen[key] {
			return fmt.Errorf("%s lacks the key %q", place(at), key)
		}
	}
	return closing(dec)
}

func closing(dec *json.Decoder) error {
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
}

// keysOf lists the keys of a struct type: all with their types, and those that
// must be there in field order.
func keysOf(t reflect.Type) (all map[string]reflect.Type, required []string) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	all = make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all[name] = t.Field(i).Type
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	return all, required
}

func place(at string) string {
	if at == "" {
		return "the document"
	}
	return at
}

func tokenKind(tok json.Token) string {
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	}
	return "null"
}

func typeWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	}
	return "an integer"
}
