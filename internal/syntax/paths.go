// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"path/filepath"
	"reflect"
	"strings"
)

// anchor makes the paths that a file names absolute, from the folder of the file, as
// somebody who reads it there would: whoever starts a program may do so anywhere.
// A field with the tag path:"file" is one; with path:"program" it is one where it has a
// slash, else it is the name of a program; with path:"place" where it has a slash and is
// no URL, else it is a host. Fields may be strings, and lists and maps of them; "" and
// "-" stay.
func anchor(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			anchor(name, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			anchor(name, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			kind := v.Type().Field(i).Tag.Get("path")
			_, decoded := v.Type().Field(i).Tag.Lookup("hcl")
			switch {
			case kind != "":
				anchorField(folderOf(name), kind, v.Field(i))
			case decoded:
				anchor(name, v.Field(i))
			}
		}
	}
}

func anchorField(dir, kind string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(below(dir, kind, v.String()))
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).SetString(below(dir, kind, v.Index(i).String()))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf(below(dir, kind, v.MapIndex(key).String())))
		}
	}
}

func below(dir, kind, path string) string {
	named := kind != "file" && !strings.ContainsAny(path, `/\`)
	url := kind == "place" && strings.Contains(path, "://")
	noFile := path == "" || path == "-"
	if noFile || named || url || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// folderOf is absolute, unless nobody knows where this process is.
func folderOf(name string) string {
	if whole, err := filepath.Abs(name); err == nil {
		name = whole
	}
	return filepath.Dir(name)
}
