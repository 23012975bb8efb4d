// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// mixesPerPage is how many mixes are listed with one request.
const mixesPerPage = 500

// asMetadata has the API server leave out what is not metadata.
const asMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// ListMixes lists the mixes of a namespace. A mix may have 256 kB of annotations,
// and a namespace thousands of mixes: each is decoded by itself as it arrives, so
// no more than one is in memory.
func ListMixes(ctx context.Context, client rest.Interface, resource, namespace string) (mixes []Mix, err error) {
	for next := ""; ; {
		r := client.Get().Namespace(namespace).Resource(resource).MaxRetries(0).
			SetHeader("Accept", asMetadata).Param("limit", fmt.Sprint(mixesPerPage))
		if next != "" {
			r.Param("continue", next)
		}
		page, err := r.Stream(ctx)
		if err != nil {
			return nil, err
		}
		mixes, next, err = decodeMixes(page, mixes)
		_ = page.Close() // after the whole page was read
		if err != nil {
			return nil, fmt.Errorf("decode a list of %s: %w", resource, err)
		}
		if next == "" {
			return mixes, nil
		}
	}
}

// decodeMixes appends the mixes of a page, and returns where the next one begins.
func decodeMixes(page io.Reader, to []Mix) (mixes []Mix, next string, err error) {
	d := json.NewDecoder(page)
	if err := expect(d, '{'); err != nil {
		return nil, "", err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, "", err
		}
		switch key {
		case "metadata":
			var m struct{ Continue string }
			err = d.Decode(&m)
			next = m.Continue
		case "items":
			to, err = decodeItems(d, to)
		default:
			err = d.Decode(&json.RawMessage{}) // kind and apiVersion
		}
		if err != nil {
			return nil, "", err
		}
	}
	return to, next, expect(d, '}')
}

func decodeItems(d *json.Decoder, to []Mix) ([]Mix, error) {
	if err := expect(d, '['); err != nil {
		return nil, err
	}
	for d.More() {
		var item struct {
			Metadata struct {
				Name       string
				UID        types.UID
				Generation int64
			}
		}
		if err := d.Decode(&item); err != nil {
			return nil, err
		}
		to = append(to, Mix{Name: item.Metadata.Name, UID: item.Metadata.UID, Generation: item.Metadata.Generation})
	}
	return to, expect(d, ']')
}

// expect reads a delimiter.
func expect(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("found %v, not %v", token, want)
	}
	return nil
}
