// SPDX-License-Identifier: Apache-2.0

package jsonerr

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExplain(t *testing.T) {
	type inner struct {
		Labels map[string]string `json:"labels"`
		List   []string          `json:"list"`
		On     *bool             `json:"on"`
		Count  int32             `json:"count"`
		Inner  *inner            `json:"inner"`
	}
	for text, want := range map[string][2]string{
		`[]`:                           {"", "has the JSON type array, must be object"},
		`{"labels":[]}`:                {"labels", "has the JSON type array, must be object"},
		`{"labels":{"a":{}}}`:          {"labels", "has the JSON type object, must be string"},
		`{"list":{}}`:                  {"list", "has the JSON type object, must be array"},
		`{"on":"yes"}`:                 {"on", "has the JSON type string, must be boolean"},
		`{"inner":{"count":1.5}}`:      {"inner.count", "has the JSON type number 1.5, must be number"},
		`{"inner":{"inner":"nobody"}}`: {"inner.inner", "has the JSON type string, must be object"},
		`{`:                            {"", "is not valid JSON: unexpected end of JSON input"},
	} {
		err := json.Unmarshal([]byte(text), &inner{})
		require.Error(t, err, text)
		field, description := Explain(err)
		assert.Equal(t, want, [2]string{field, description}, text)
	}
}
