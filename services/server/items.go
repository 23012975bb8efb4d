// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxItems bounds each list and map of a request, above all maxima of the API. The API server compares every error of an object with
// all others: an object with 10,000 invalid items takes it half a minute (Result.AddErrors of k8s.io/kube-openapi).
const maxItems = 1000

var tooMany = fmt.Sprintf("Too many: must have at most %d items", maxItems)

// items are the numbers of items of the lists and maps of a message.
type items map[protoreflect.FieldNumber]int

// add counts an item of a list or a map.
func (n items) add(f protoreflect.FieldDescriptor) int {
	if f.Cardinality() == protoreflect.Repeated {
		n[f.Number()]++
	}
	return n[f.Number()]
}

// maxKey is the maximum length of a key of a JSON object, in bytes. The longest that a CRD accepts is that of a label, of 317. The JSON
// library writes the path of each unknown and duplicate field, with the keys above it: 500 KB of them below a key of 500 KB take minutes.
const maxKey = 1024

// maxDepth is how many objects and lists are within each other in what encoding/json reads.
const maxDepth = 10_000

// container is an object or a list of JSON that is being read.
type container struct {
	object bool
	key    string
	// tokens are those of its own: the keys and values of an object, the values of a list.
	tokens int
}

func (c *container) items() int {
	if c.object {
		return (c.tokens + 1) / 2
	}
	return c.tokens
}

// add takes over a token, and returns how a list, an object or a key exceeds its bound, "" if none does. Raw is the text of the token
// and what is before it.
func (c *container) add(token json.Token, raw []byte) string {
	c.tokens++
	if key, is := token.(string); is && c.object && c.tokens%2 == 1 {
		if len(bytes.TrimLeft(raw, " \t\r\n,"))-len(`""`) > maxKey {
			return fmt.Sprintf("has a key of more than %d bytes", maxKey)
		}
		c.key = key
	}
	if c.items() > maxItems {
		return tooMany
	}
	return ""
}

// exceeding returns the first list, object or key of JSON that exceeds its bound, nil if none does. Text that is not JSON, or nested
// too deep, is for the decoder to refuse.
func exceeding(b []byte) *Violation {
	var open []container
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // one out of range is no error, after which the rest would not be read
	for len(open) <= maxDepth {
		begin := d.InputOffset()
		token, err := d.Token()
		if err != nil {
			return nil
		}
		delim, isDelim := token.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 {
			if problem := open[n-1].add(token, b[begin:d.InputOffset()]); problem != "" {
				return &Violation{Field: keysOf(open[:n-1]), Description: problem}
			}
		}
		if isDelim {
			open = append(open, container{object: delim == '{'})
		}
	}
	return nil
}

// keysOf returns the keys that lead into containers.
func keysOf(open []container) string {
	var keys []string
	for i := range open {
		if open[i].key != "" {
			keys = append(keys, open[i].key)
		}
	}
	return strings.Join(keys, ".")
}
