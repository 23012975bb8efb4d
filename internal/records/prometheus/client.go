// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/nfr"
)

// Client queries one Prometheus server. It is safe for concurrent use.
type Client struct {
	api     promv1.API
	timeout time.Duration
}

// New returns a client. It sends nothing. The error is about the configuration.
func New(c Config) (*Client, error) {
	if err := checkAddress(c.Address); err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	httpClient, err := c.httpClient()
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{Address: c.Address, Client: httpClient})
	if err != nil {
		return nil, err
	}
	return &Client{api: promv1.NewAPI(client), timeout: cmp.Or(c.Timeout, nfr.QueryTimeout)}, nil
}

// Measure returns what a query results in: the mean of all points of the ten minutes before a time, or, where there are none
// or they are 0, the value at that time. Each of the two queries has a time-out of its own. The figure is unknown, with an
// *Error, if neither gave a number; it is known to be 0 if one of them returned 0.
func (c *Client) Measure(ctx context.Context, query string, at time.Time) (nfr.Figure, error) {
	past, pastErr := c.ask(ctx, func(ctx context.Context) (model.Value, error) {
		window := promv1.Range{Start: at.Add(-nfr.QueryWindow), End: at, Step: nfr.QueryStep}
		v, _, err := c.api.QueryRange(ctx, query, window, promv1.WithTimeout(c.timeout))
		return v, err
	})
	if past.Value() > 0 {
		return past, nil
	}
	now, nowErr := c.ask(ctx, func(ctx context.Context) (model.Value, error) {
		v, _, err := c.api.Query(ctx, query, at, promv1.WithTimeout(c.timeout))
		return v, err
	})
	switch {
	case now.Known():
		return now, nil
	case past.Known():
		return past, nil
	}
	return nfr.Figure{}, worse(pastErr, nowErr)
}

// Holds reports whether a query is true at a time: its answer is a scalar or a vector of at least one value, and none is 0 or no number.
// The detail has the value that decides. An error means that it is not known.
func (c *Client) Holds(ctx context.Context, query string, at time.Time) (holds bool, detail string, err error) {
	value, err := c.query(ctx, query, at)
	if err != nil {
		return false, "", err
	}
	var values []model.SampleValue
	switch v := value.(type) {
	case *model.Scalar:
		values = append(values, v.Value)
	case model.Vector:
		for _, s := range v {
			values = append(values, s.Value)
		}
	default:
		return false, "", &Error{Reason: v1alpha1.ReasonPrometheusQueryFailed, err: errors.New("the answer is neither a scalar nor a vector")}
	}
	if len(values) == 0 {
		return false, "the answer has no values", nil
	}
	for _, v := range values {
		if v == 0 || math.IsNaN(float64(v)) {
			return false, fmt.Sprintf("%d values, one of which is %v", len(values), float64(v)), nil
		}
	}
	return true, fmt.Sprintf("%d values, the first of which is %v", len(values), float64(values[0])), nil
}

// Values returns the values of a query at a time. No value is no error.
func (c *Client) Values(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	value, err := c.query(ctx, query, at)
	if err != nil {
		return nil, err
	}
	if v, is := value.(model.Vector); is {
		return v, nil
	}
	return nil, &Error{Reason: v1alpha1.ReasonPrometheusQueryFailed, err: errors.New("the answer is no vector")}
}

// query returns the answer of a query at a time.
func (c *Client) query(ctx context.Context, query string, at time.Time) (model.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	value, _, err := c.api.Query(ctx, query, at, promv1.WithTimeout(c.timeout))
	if err != nil {
		return nil, classify(err, c.timeout)
	}
	return value, nil
}

// ask runs one query and sums up its answer.
func (c *Client) ask(ctx context.Context, query func(context.Context) (model.Value, error)) (nfr.Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	value, err := query(ctx)
	if err != nil {
		return nfr.Figure{}, classify(err, c.timeout)
	}
	return mean(value)
}

// mean is that of all points that are numbers.
func mean(value model.Value) (nfr.Figure, error) {
	sum, n := 0.0, 0
	add := func(v model.SampleValue) {
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			sum += f
			n++
		}
	}
	switch v := value.(type) {
	case model.Matrix:
		for _, series := range v {
			for _, p := range series.Values {
				add(p.Value)
			}
		}
	case model.Vector:
		for _, s := range v {
			add(s.Value)
		}
	default:
		return nfr.Figure{}, &Error{
			Reason: v1alpha1.ReasonPrometheusQueryFailed,
			err:    errors.New("the answer is neither a vector nor a matrix"),
		}
	}
	figure := nfr.Known(sum / float64(n))
	if !figure.Known() {
		return nfr.Figure{}, &Error{Reason: v1alpha1.ReasonPrometheusNoData, err: errors.New("no data")}
	}
	return figure, nil
}
