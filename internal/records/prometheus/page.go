// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/common/model"

	"berth.dev/berth/internal/records/nfr"
)

// Endpoint reads from any address with one configuration, whose own address is not used.
type Endpoint Config

// Page is ReadPage of an address.
func (e Endpoint) Page(ctx context.Context, address string, read func(io.Reader) error) error {
	e.Address = address
	return ReadPage(ctx, Config(e), read)
}

// Values returns the values of queries at a time, in their order, of the server at an address.
func (e Endpoint) Values(ctx context.Context, address string, queries []string, at time.Time) ([]model.Vector, error) {
	e.Address = address
	server, err := New(Config(e))
	if err != nil {
		return nil, err
	}
	all := make([]model.Vector, len(queries))
	for i, query := range queries {
		if all[i], err = server.Values(ctx, query, at); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// textFormat is the only one that ReadPage requests.
const textFormat = "text/plain;version=0.0.4"

// ReadPage has a function read the metrics that a program serves at the address, within the time-out.
func ReadPage(ctx context.Context, c Config, read func(io.Reader) error) error {
	if err := checkAddress(c.Address); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	httpClient, err := c.httpClient()
	if err != nil {
		return err
	}
	defer httpClient.CloseIdleConnections()
	timeout := cmp.Or(c.Timeout, nfr.QueryTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Address, http.NoBody)
	if err != nil {
		return bare(err)
	}
	req.Header.Set("Accept", textFormat)
	resp, err := httpClient.Do(req)
	if err != nil {
		return classify(err, timeout)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return read(resp.Body)
}
