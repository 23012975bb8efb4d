// SPDX-License-Identifier: Apache-2.0

// Command configschema prints the JSON schema of a configuration file, made of the Go type Configuration that it is decoded to, and
// of the comments of its fields.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

func main() {
	folder := flag.String("package", "", "the folder of the package, such as ./apis/config/controller")
	title := flag.String("title", "", "the title of the schema")
	flag.Parse()
	if err := run(*folder, *title); err != nil {
		fmt.Fprintln(os.Stderr, "configschema:", err)
		os.Exit(1)
	}
}

func run(folder, title string) error {
	registry := &markers.Registry{}
	if err := (crd.Generator{}).RegisterMarkers(registry); err != nil {
		return err
	}
	roots, err := loader.LoadRoots(folder)
	if err != nil {
		return err
	}
	if len(roots) != 1 {
		return fmt.Errorf("%d packages in %s, want one", len(roots), folder)
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry},
		Checker:   &loader.TypeChecker{NodeFilters: []loader.NodeFilter{(crd.Generator{}).CheckFilter()}},
	}
	crd.AddKnownTypes(parser)
	parser.NeedPackage(roots[0])
	typ := crd.TypeIdent{Package: roots[0], Name: "Configuration"}
	parser.NeedFlattenedSchemaFor(typ)
	if loader.PrintErrors(roots, packages.TypeError) { // types of other packages are loaded only where a field has them
		return errors.New("the package has errors")
	}
	text, err := json.Marshal(parser.FlattenedSchemata[typ])
	if err != nil {
		return err
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return err
	}
	closed(schema)
	schema["$schema"], schema["title"] = "http://json-schema.org/draft-07/schema#", title
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(schema)
}

// closed rejects fields that a type does not have, as the decoder of the file does, and removes what only the API server reads.
func closed(schema map[string]any) {
	for key, value := range schema {
		if strings.HasPrefix(key, "x-kubernetes-") {
			delete(schema, key)
		}
		if key == "properties" {
			for _, of := range value.(map[string]any) {
				field := of.(map[string]any)
				closed(field)
				field["type"] = []any{field["type"], "null"} // which leaves the default
			}
			continue
		}
		if of, is := value.(map[string]any); is && (key == "items" || key == "additionalProperties") {
			closed(of)
		}
	}
	if schema["properties"] != nil {
		schema["additionalProperties"] = false
	}
}
