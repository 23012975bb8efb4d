// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestOriginsOfPages(t *testing.T) {
	with := func(origins ...string) string {
		return fmt.Sprintf("services: {grpcWeb: {enabled: true, allowedOrigins: [%s]}}", strings.Join(origins, ", "))
	}
	var many []string
	for i := range 33 {
		many = append(many, fmt.Sprintf("https://ui-%d.example", i))
	}
	const first = "services.grpcWeb.allowedOrigins[0]: Invalid value: "
	long := "https://" + strings.Repeat("a", 249)
	validates(t, map[string]change{
		"on":                {"services: {grpcWeb: {enabled: true}}", ""},
		"origins":           {with("https://ui.example", `"http://localhost:5173"`, `"https://[::1]:8443"`), ""},
		"all":               {with(`"*"`), ""},
		"as many as may be": {with(many[:32]...), ""},
		"one more":          {with(many...), "services.grpcWeb.allowedOrigins: Too many: 33: must have at most 32 items"},
		"as long as may be": {with(long[:256]), ""},
		"longer":            {with(long), "services.grpcWeb.allowedOrigins[0]: Too long"},
		"off": {
			"services: {grpcWeb: {allowedOrigins: [https://ui.example]}}", "services.grpcWeb.allowedOrigins: Forbidden: may be set only with enabled",
		},
		"a duplicate":        {with("https://a.example", "https://a.example"), "services.grpcWeb.allowedOrigins[1]: Duplicate"},
		"all and one":        {with(`"*"`, "https://a.example"), first + `"*": must be the only entry`},
		"a pattern":          {with(`"https://*.example"`), first + `"https://*.example": must be one origin: patterns are not supported`},
		"a name":             {with("ui.example"), first + `"ui.example": must be scheme://host`},
		"a path":             {with("https://ui.example/"), first + `"https://ui.example/": must be scheme://host`},
		"a user":             {with("https://u@ui.example"), first},
		"nothing":            {with(`""`), first + `""`},
		"no page":            {with(`"null"`), first + `"null": must be scheme://host`},
		"upper case":         {with("https://UI.example"), first + `"https://UI.example": must be in lower case`},
		"the default port":   {with(`"https://ui.example:443"`), first + `"https://ui.example:443": must not have the default port of https`},
		"that of the others": {with(`"http://ui.example:80"`), first},
	})
}
