// SPDX-License-Identifier: Apache-2.0

package console

import (
	"maps"
	"net/url"
	"strconv"
)

// perPage is the number of rows of a list on a page.
const perPage = 100

// paging is a page of a list that has several.
type paging struct {
	// Label names the links to the other pages.
	Label      string
	Page, Last int
	// Previous and Next are the URLs of the pages beside it, empty if there are none.
	Previous, Next string
}

// pagingOf is the page with a number, of a list of n rows at a path with a query.
func pagingOf(label, path string, query url.Values, number string, n int) paging {
	return pagingBy("page", label, path, query, number, n)
}

// pagingBy is a page by the number in a parameter.
func pagingBy(parameter, label, path string, query url.Values, number string, n int) paging {
	p := paging{Label: label, Page: 1, Last: max(1, (n+perPage-1)/perPage)}
	if given, err := strconv.Atoi(number); err == nil {
		p.Page = min(max(given, 1), p.Last)
	}
	at := func(number int) string {
		q := maps.Clone(query)
		if number > 1 {
			q.Set(parameter, strconv.Itoa(number))
		}
		return (&url.URL{Path: path, RawQuery: q.Encode()}).String()
	}
	if p.Page > 1 {
		p.Previous = at(p.Page - 1)
	}
	if p.Page < p.Last {
		p.Next = at(p.Page + 1)
	}
	return p
}

// rowsOf are the rows of a list on a page.
func rowsOf[T any](p paging, list []T) []T {
	return list[(p.Page-1)*perPage : min(p.Page*perPage, len(list))]
}
