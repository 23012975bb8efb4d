// SPDX-License-Identifier: Apache-2.0

package crd

// selectorCases has the rules of a PodSelector, which several kinds have as spec.selector. In makes the rest of a spec
// around a selector.
func selectorCases(in func(selector string) string) ruleCases {
	return ruleCases{
		"matchLabels must have label keys: " + labelKey: {
			accepted: []string{
				in("{matchLabels: {app: web, app.kubernetes.io/Name_1: web}}"),
				in("{matchLabels: {" + longestPrefix + "/" + longestName + ": web}}"),
			},
			rejected: []rejected{
				{in("{matchLabels: {'my app': web}}"), notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "my app", labelKey)},
				{in("{matchLabels: {'': web}}"), notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "", labelKey)},
				{in("{matchLabels: {a/b/c: web}}"), notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "a/b/c", labelKey)},
				{in("{matchLabels: {a" + longestPrefix + "/a: web}}"), notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "a"+longestPrefix+"/a", labelKey)},
			},
		},
		"matchLabels must have label values: " + labelValue: {
			accepted: []string{in("{matchLabels: {app: '', tier: Front_1.a-b, name: " + longestName + "}}")},
			rejected: []rejected{
				{in("{matchLabels: {app: my app}}"), notALabel("spec.selector.matchLabels[app]", "string", "matchLabels must have label values", "my app", labelValue)},
				{in("{matchLabels: {app: web-}}"), notALabel("spec.selector.matchLabels[app]", "string", "matchLabels must have label values", "web-", labelValue)},
			},
		},
		"key must be a label key: " + labelKey: {
			accepted: []string{
				in("{matchExpressions: [{key: app.kubernetes.io/name, operator: Exists}]}"),
				in("{matchExpressions: [{key: " + longestPrefix + "/" + longestName + ", operator: Exists}]}"),
			},
			rejected: []rejected{
				{in("{matchExpressions: [{key: my app, operator: Exists}]}"), notALabel("spec.selector.matchExpressions[0].key", "string", "key must be a label key", "my app", labelKey)},
				{in("{matchExpressions: [{key: /app, operator: Exists}]}"), notALabel("spec.selector.matchExpressions[0].key", "string", "key must be a label key", "/app", labelKey)},
			},
		},
		"values must hold label values: " + labelValue: {
			accepted: []string{in("{matchExpressions: [{key: app, operator: In, values: ['', web, Web_1.a-b]}]}")},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: In, values: [web, 'my app']}]}"), notALabel("spec.selector.matchExpressions[0].values[1]", "string", "values must hold label values", "my app", labelValue)},
			},
		},
		"values must not be empty when operator is In or NotIn": {
			accepted: []string{
				in("{matchExpressions: [{key: app, operator: In, values: [web]}]}"),
				in("{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}"),
			},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: In}]}"), `spec.selector.matchExpressions[0].values: Invalid value: "object": values must not be empty when operator is In or NotIn`},
				{in("{matchExpressions: [{key: app, operator: NotIn, values: []}]}"), `spec.selector.matchExpressions[0].values: Invalid value: "object": values must not be empty when operator is In or NotIn`},
			},
		},
		"values must be empty when operator is Exists or DoesNotExist": {
			accepted: []string{
				in("{matchExpressions: [{key: app, operator: Exists}]}"),
				in("{matchExpressions: [{key: app, operator: DoesNotExist, values: []}]}"),
			},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: Exists, values: [web]}]}"), `spec.selector.matchExpressions[0].values: Invalid value: "object": values must be empty when operator is Exists or DoesNotExist`},
				{in("{matchExpressions: [{key: app, operator: DoesNotExist, values: [web]}]}"), `spec.selector.matchExpressions[0].values: Invalid value: "object": values must be empty when operator is Exists or DoesNotExist`},
			},
		},
	}
}
