// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/zip"
	"fmt"
	"io"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"
)

// HashZip returns the h1: of the files in a zip of [Tree.Pack], as the tools install them.
func HashZip(file io.ReaderAt, size int64) (string, error) {
	z, err := zip.NewReader(file, size)
	if err != nil {
		return "", err
	}
	var names []string
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	h1, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) { return z.Open(name) })
	if err != nil {
		return "", fmt.Errorf("hashing the files of a package: %w", err)
	}
	return h1, nil
}
