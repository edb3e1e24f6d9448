#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: oras-go 2.7.0 (2.6.4 does the same), the client library of the OCI registry world.
# Guess: a Link header of a tag list names the next page if its relation is "next", as the
#   distribution specification writes it; other relations of RFC 8288 are ignored.
# Happens: the first target of the header is fetched as the next page whatever its relation.
#   A one-page list with <…>; rel="first" is read again and again, without an end unless
#   TagListMaxPages is set, which it is not by default. Behind rel="first", a rel="next"
#   in the same header is not seen: the second page is missing.
# Matters: a registry or a gateway that adds a link for browsing makes tools of this library
#   list for ever, or decide by half of the tags.
set -euo pipefail
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
cd "$tmp"
cat >main.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
)

// list serves tags a on one page and b on the next, with the links of head on the first.
func list(head string) (tags []string, requests int, err error) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("last") == "a" {
			fmt.Fprint(w, `{"name":"r","tags":["b"]}`)
			return
		}
		w.Header().Set("Link", head)
		fmt.Fprint(w, `{"name":"r","tags":["a"]}`)
	}))
	defer s.Close()
	repo, err := remote.NewRepository(strings.TrimPrefix(s.URL, "http://") + "/r")
	if err != nil {
		return nil, 0, err
	}
	repo.PlainHTTP, repo.TagListMaxPages = true, 5
	err = repo.Tags(context.Background(), "", func(page []string) error {
		tags = append(tags, page...)
		return nil
	})
	return tags, requests, err
}

func main() {
	const first, next = `</v2/r/tags/list>; rel="first"`, `</v2/r/tags/list?last=a>; rel="next"`
	tags, n, err := list(next)
	fmt.Printf("next:        %d requests, tags %v, %v\n", n, tags, err)
	ok := err == nil && slices.Equal(tags, []string{"a", "b"})
	for _, head := range []string{first, first + ", " + next} {
		tags, n, err = list(head)
		fmt.Printf("%s: %d requests, tags %v, %v\n", head, n, tags, err)
		ok = ok && n == 5 && errors.Is(err, errdef.ErrTooManyPages) && !slices.Contains(tags, "b")
	}
	if !ok {
		os.Exit(1)
	}
}
GO
export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
go mod init finding 2>/dev/null
go get oras.land/oras-go/v2@v2.7.0 >/dev/null 2>&1
timeout 300 go run .
