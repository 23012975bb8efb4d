// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	networkingv1 "k8s.io/api/networking/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func TestDomainsAreThoseThatANamespaceMayHave(t *testing.T) {
	d := Domains{"shop": {"shop.example", "*.shop.example"}, "*": {"*.preview.example"}, "ops": {"*"}}
	for _, tc := range []struct {
		namespace, domain string
		allowed           bool
	}{
		{"shop", "shop.example", true},
		{"shop", "www.shop.example", true},
		{"shop", "a.b.shop.example", true},
		{"shop", "*.shop.example", true},
		{"shop", "a.preview.example", true},
		{"shop", "preview.example", false},
		{"shop", "bank.example", false},
		{"shop", "notshop.example", false},
		{"shop", "shop.example.evil.example", false},
		{"shop", "*.example", false},
		{"other", "shop.example", false},
		{"other", "b.preview.example", true},
		{"ops", "bank.example", true},
	} {
		allowed, refused := d.Split(tc.namespace, &v1alpha1.FrontendComponent{Domains: []string{tc.domain}})
		assert.Equal(t, tc.allowed, len(allowed) == 1, "%s %s", tc.namespace, tc.domain)
		assert.Equal(t, tc.allowed, len(refused) == 0, "%s %s", tc.namespace, tc.domain)
	}
	allowed, refused := Domains(nil).Split("shop", &v1alpha1.FrontendComponent{Domains: []string{"shop.example"}})
	assert.Empty(t, allowed, "none by default")
	assert.Equal(t, []string{"shop.example"}, refused)
	allowed, refused = d.Split("shop", nil)
	assert.Empty(t, append(allowed, refused...))
}

func TestADomainThatIsNotAllowedHasNoRoute(t *testing.T) {
	in := input(t, func(in *Input) { in.Settings.Domains = Domains{"team": {"shop.example"}} })
	var ingress *networkingv1.Ingress
	for _, o := range Render(in) {
		if i, is := o.(*networkingv1.Ingress); is {
			ingress = i
		}
	}
	if assert.NotNil(t, ingress) {
		assert.Len(t, ingress.Spec.Rules, 1)
		assert.Equal(t, "shop.example", ingress.Spec.Rules[0].Host)
		assert.Equal(t, []string{"shop.example"}, ingress.Spec.TLS[0].Hosts)
	}
	in.Settings.Domains = nil
	for _, o := range Render(in) {
		_, is := o.(*networkingv1.Ingress)
		assert.False(t, is)
	}
}
