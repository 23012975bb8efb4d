// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config/controller"
)

// published is the schema of `make generate`, for editors and other tools.
func published(t *testing.T) *spec.Schema {
	t.Helper()
	text, err := os.ReadFile("../../../docs/reference/berth-controller-config.schema.json")
	require.NoError(t, err)
	schema := &spec.Schema{}
	require.NoError(t, json.Unmarshal(text, schema))
	return schema
}

// accepts reports whether the schema accepts a file.
func accepts(t *testing.T, schema *spec.Schema, file string) bool {
	t.Helper()
	var value any
	require.NoError(t, yaml.Unmarshal([]byte(file), &value))
	return validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(value).IsValid()
}

// What the schema rejects, the decoder rejects, and the reverse; ranges are in the descriptions, and checked by Validate.
func TestTheSchemaIsThatOfTheDecoder(t *testing.T) {
	schema := published(t)
	for _, path := range []string{"controller/config.yaml", "environments/config.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../../manifests", path))
		require.NoError(t, err)
		assert.True(t, accepts(t, schema, string(text)), path)
	}
	const head = "apiVersion: " + controller.APIVersion + "\nkind: " + controller.Kind + "\n"
	for file, want := range map[string]bool{
		"": true,
		"environments: {namespaceLabels: {a: b}}":     true,
		"environments: {namespacelabels: {a: b}}":     false,
		"environments: {namespaceLabels: {a: 1}}":     false,
		"environments: {spotPercent: some}":           false,
		"records: {nfr: {intervalSeconds: 60}}":       true,
		"records: {nfr: {intervalSeconds: '60'}}":     false,
		"records: {features: {odgm: true}, other: 1}": false,
		"namespaces: shop":                            false,
		"controllers: [environments]":                 true,
	} {
		_, err := controller.Parse([]byte(head + file))
		assert.Equal(t, want, err == nil, "decoder: %s: %v", file, err)
		assert.Equal(t, want, accepts(t, schema, head+file), "schema: %s", file)
	}
}

// Every field is in the schema, with a description.
func TestTheSchemaHasEveryField(t *testing.T) {
	var walk func(path string, of reflect.Type, schema *spec.Schema)
	walk = func(path string, of reflect.Type, schema *spec.Schema) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			if of.Kind() == reflect.Slice {
				require.NotNil(t, schema.Items, path)
				schema = schema.Items.Schema
			}
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for f := range of.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if strings.Contains(options, "inline") {
				walk(path, f.Type, schema)
				continue
			}
			property, there := schema.Properties[name]
			if assert.True(t, there, "%s.%s", path, name) {
				assert.NotEmpty(t, property.Description, "%s.%s", path, name)
				walk(path+"."+name, f.Type, &property)
			}
		}
	}
	walk("", reflect.TypeFor[controller.Configuration](), published(t))
}
