// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// TestCRDsFollowTheAPIConventions checks the generated CRDs, so that types that are added later must follow the same rules.
func TestCRDsFollowTheAPIConventions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../manifests/crds/berth.dev_*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			crd := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, yaml.UnmarshalStrict(data, crd))

			checkAcceptedByTheServer(t, crd)
			assert.Equal(t, apiextensionsv1.NamespaceScoped, crd.Spec.Scope)
			assert.NotEmpty(t, crd.Spec.Names.ShortNames)
			assert.Equal(t, []string{"berth"}, crd.Spec.Names.Categories)
			for i := range crd.Spec.Versions {
				checkVersion(t, crd.Spec.Names.Kind, &crd.Spec.Versions[i])
			}
		})
	}
}

// checkAcceptedByTheServer runs the server's own validation, which includes the cost budget of the CEL rules.
func checkAcceptedByTheServer(t *testing.T, v1 *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	v1 = v1.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(v1)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	v1.Status.StoredVersions = []string{v1.Spec.Versions[0].Name}
	crd := &apiextensions.CustomResourceDefinition{}
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(v1, crd, nil))
	assert.Empty(t, validation.ValidateCustomResourceDefinition(t.Context(), crd))
}

// records are the kinds that report a fact, as Event does: they desire nothing, so they have neither spec nor status, but a field
// of their own.
var records = map[string]string{"SchedulingDecision": "attempt"}

func checkVersion(t *testing.T, kind string, version *apiextensionsv1.CustomResourceDefinitionVersion) {
	t.Helper()
	columns := version.AdditionalPrinterColumns
	require.NotEmpty(t, columns)
	assert.Equal(t, "Age", columns[len(columns)-1].Name)
	root := version.Schema.OpenAPIV3Schema
	assert.NotEmpty(t, root.Description)
	if fact, ok := records[kind]; ok {
		assert.Nil(t, ptr.Deref(version.Subresources, apiextensionsv1.CustomResourceSubresources{}).Status)
		assert.Equal(t, []string{fact}, root.Required)
		property := root.Properties[fact]
		checkSchema(t, fact, fact, &property)
		return
	}
	require.NotNil(t, version.Subresources)
	assert.NotNil(t, version.Subresources.Status)
	assert.Contains(t, root.Required, "spec")
	status := root.Properties["status"]
	assert.Contains(t, status.Properties, "observedGeneration")
	assert.Equal(t, []string{"type"}, status.Properties["conditions"].XListMapKeys)
	for _, name := range []string{"spec", "status"} {
		property := root.Properties[name]
		checkSchema(t, name, name, &property)
	}
}

// checkSchema checks a schema and everything below it. Field is the JSON name of the nearest property around it.
func checkSchema(t *testing.T, path, field string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	checkBounds(t, path, schema)
	for _, rule := range schema.XValidations {
		named := field
		if rule.FieldPath != "" {
			named = rule.FieldPath[strings.LastIndex(rule.FieldPath, ".")+1:]
		}
		assert.True(
			t, strings.HasPrefix(rule.Message, named+" "), "%s: message %q must start with the field's name, %s", path,
			rule.Message, named,
		)
	}
	for name := range schema.Properties {
		property := schema.Properties[name]
		assert.True(
			t, strings.HasPrefix(property.Description, name+" "),
			"%s.%s: the description must start with the field's name: %q", path, name, property.Description,
		)
		checkSchema(t, path+"."+name, name, &property)
	}
	if schema.Items != nil {
		checkSchema(t, path+"[]", field, schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		checkSchema(t, path+"{}", field, schema.AdditionalProperties.Schema)
	}
}

// ruled reports whether a rule of a schema has a text.
func ruled(schema *apiextensionsv1.JSONSchemaProps, text string) bool {
	return slices.ContainsFunc(schema.XValidations, func(rule apiextensionsv1.ValidationRule) bool { return strings.Contains(rule.Rule, text) })
}

// parsed finds what a rule reads as a quantity, unless the rule has it as a literal.
var parsed = regexp.MustCompile(`(?:isQuantity|quantity)\(((?:string\([^()]*\)|[^()'])+)\)`)

// checkQuantities requires that a rule refuses a large exponent before it reads a quantity: the API server computes the power of ten of
// 1e-999999999 for minutes or hours, whatever the budget of the rule is.
func checkQuantities(t *testing.T, path, rule string) {
	t.Helper()
	literals := strings.Count(rule, "uantity('")
	found := parsed.FindAllStringSubmatchIndex(rule, -1)
	assert.Len(t, found, strings.Count(rule, "uantity(")-literals, "%s: %s", path, rule)
	for _, at := range found {
		bound := rule[at[2]:at[3]] + ".matches('[eE].{4}')"
		assert.Contains(t, rule[:at[0]], bound, "%s: a quantity is read before its exponent is bounded", path)
	}
}

func checkBounds(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	// A quantity may be written as a number: its pattern distinguishes it from other fields of two types.
	quantity := schema.XIntOrString && schema.Pattern != ""
	assert.True(t, quantity || !schema.XIntOrString, "%s: one type a field", path)
	assert.Nil(t, schema.XPreserveUnknownFields, "%s: every field has a schema", path)
	if quantity || ruled(schema, "isQuantity(self)") {
		assert.NotNil(t, schema.MaxLength, "%s: a quantity needs maxLength", path)
		assert.True(t, ruled(schema, "compareTo(quantity('") && ruled(schema, ")) <= 0"), "%s: a quantity needs a maximum", path)
	}
	for _, rule := range schema.XValidations {
		checkQuantities(t, path, rule.Rule)
		checkQuantities(t, path, rule.MessageExpression)
	}
	switch schema.Type {
	case "string":
		bounded := schema.MaxLength != nil || len(schema.Enum) > 0 || schema.Format == "date-time"
		assert.True(t, bounded, "%s: a string needs maxLength", path)
	case "array":
		assert.NotNil(t, schema.MaxItems, "%s: a list needs maxItems", path)
		if assert.NotNil(t, schema.XListType, "%s: a list needs a list type", path) && *schema.XListType == "map" {
			assert.NotEmpty(t, schema.XListMapKeys, "%s: a list of type map needs keys", path)
		}
	case "integer":
		assert.Contains(t, []string{"int32", "int64"}, schema.Format, path)
		generation := strings.HasSuffix(path, "observedGeneration")
		assert.True(t, ruled(schema, "self <=") || schema.Maximum != nil && schema.Minimum != nil || generation, "%s: an integer needs both bounds", path)
	case "object":
		if schema.AdditionalProperties != nil {
			assert.NotNil(t, schema.MaxProperties, "%s: a map needs maxProperties", path)
		}
	case "boolean":
	default:
		assert.True(t, quantity, "%s: type %q is not allowed in an API", path, schema.Type)
	}
}
