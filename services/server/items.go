// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"encoding/json"
	"fmt"

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

// crowded returns the path of the first list or object of JSON with more than maxItems items, if there is one. Text that is no JSON is
// for the decoder to refuse.
func crowded(b []byte) (path string, found bool) {
	var open []*container
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		token, err := d.Token()
		if err != nil {
			return "", false
		}
		delim, isDelim := token.(json.Delim)
		if isDelim && (delim == '}' || delim == ']') {
			open = open[:len(open)-1]
			continue
		}
		if n := len(open); n > 0 {
			c := open[n-1]
			c.tokens++
			if key, is := token.(string); is && c.object && c.tokens%2 == 1 {
				c.key = key
			}
			if c.items() > maxItems {
				return keysOf(open[:n-1]), true
			}
		}
		if isDelim {
			open = append(open, &container{object: delim == '{'})
		}
	}
}

// keysOf returns the keys that lead into containers.
func keysOf(open []*container) (path string) {
	for _, c := range open {
		if c.object {
			path = join(path, c.key)
		}
	}
	return path
}
