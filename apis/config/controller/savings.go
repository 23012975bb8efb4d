// SPDX-License-Identifier: Apache-2.0

package controller

import "k8s.io/apimachinery/pkg/util/validation/field"

// Savings configures the metrics of what mixes save, and where the prices of nodes are from. Of each price, the first source that has it
// applies: pricesFile, NodeOverlays, the metrics of Karpenter and OpenCost, public lists that are built in, and rates for CPU and memory.
type Savings struct {
	// intervalSeconds is the time between two readings of prices, in seconds from 30 to 86400. 0 disables the metrics of
	// savings. Defaults to 300.
	//
	// +optional
	IntervalSeconds int32 `json:"intervalSeconds"`

	// pricesFile is the path of a file with your own prices, in the format of kubectl berth savings --prices. Defaults to
	// empty.
	//
	// +optional
	PricesFile string `json:"pricesFile"`

	// discountPercent is the percentage by which you pay less for on-demand nodes than public lists have it, from 0 to 99.
	// 0 means that of pricesFile. Defaults to 0.
	//
	// +optional
	DiscountPercent int32 `json:"discountPercent"`

	// metricsURL is the http or https URL at which Karpenter or OpenCost serves its metrics. It must not be set together
	// with prometheusURL. Defaults to empty.
	//
	// +optional
	MetricsURL string `json:"metricsURL"`

	// prometheusURL is the http or https URL of a Prometheus server that has these metrics. Defaults to empty.
	//
	// +optional
	PrometheusURL string `json:"prometheusURL"`

	// bearerTokenFile is the path of a bearer token for the URL, which is read for every request. Defaults to empty.
	//
	// +optional
	BearerTokenFile string `json:"bearerTokenFile"`

	// caFile is the path of the certificate authorities of the server, PEM. Defaults to empty, which means those of the
	// system.
	//
	// +optional
	CAFile string `json:"caFile"`

	// nodeOverlays has the controller read the prices that Karpenter's NodeOverlays set and change. It requires the right to
	// list nodeoverlays.karpenter.sh. Defaults to false.
	//
	// +optional
	NodeOverlays bool `json:"nodeOverlays"`

	// timeoutSeconds is the maximum time of an answer, in seconds from 1 to 60. Defaults to 30.
	//
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds"`
}

func defaultSavings() Savings { return Savings{IntervalSeconds: 300, TimeoutSeconds: 30} }

func (s *Savings) validate(path *field.Path) field.ErrorList {
	var all field.ErrorList
	if s.IntervalSeconds != 0 {
		all = inRange(path.Child("intervalSeconds"), s.IntervalSeconds, 30, 86400)
	}
	all = append(all, inRange(path.Child("discountPercent"), s.DiscountPercent, 0, 99)...)
	all = append(all, httpURL(path.Child("metricsURL"), s.MetricsURL)...)
	all = append(all, httpURL(path.Child("prometheusURL"), s.PrometheusURL)...)
	if s.MetricsURL != "" && s.PrometheusURL != "" {
		all = append(all, field.Forbidden(path.Child("metricsURL"), "must not be set together with prometheusURL"))
	}
	if s.MetricsURL == "" && s.PrometheusURL == "" {
		all = append(all, withoutURL(path.Child("bearerTokenFile"), s.BearerTokenFile)...)
		all = append(all, withoutURL(path.Child("caFile"), s.CAFile)...)
	}
	return append(all, inRange(path.Child("timeoutSeconds"), s.TimeoutSeconds, 1, 60)...)
}

// withoutURL refuses a file that only the request of a URL has use for.
func withoutURL(path *field.Path, file string) field.ErrorList {
	if file == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, file, "requires metricsURL or prometheusURL")}
}
