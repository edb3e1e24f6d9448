// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"path/filepath"
	"reflect"
	"strings"
)

// anchorPaths makes a file's paths absolute, from its directory. Of a field's tags path:"file" is a
// path, path:"program" one if it has a slash, path:"place" if it has a slash and is no URL. Fields
// are strings, lists or maps of them; "" and "-" stay.
func anchorPaths(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			anchorPaths(name, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			anchorPaths(name, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			kind := v.Type().Field(i).Tag.Get("path")
			_, decoded := v.Type().Field(i).Tag.Lookup("hcl")
			switch {
			case kind != "":
				anchorField(folderOf(name), kind, v.Field(i))
			case decoded:
				anchorPaths(name, v.Field(i))
			}
		}
	}
}

func anchorField(dir, kind string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(absolutePath(dir, kind, v.String()))
	case reflect.Slice:
		for i := range v.Len() {
			v.Index(i).SetString(absolutePath(dir, kind, v.Index(i).String()))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf(absolutePath(dir, kind, v.MapIndex(key).String())))
		}
	}
}

func absolutePath(dir, kind, path string) string {
	named := kind != "file" && !strings.ContainsAny(path, `/\`)
	url := kind == "place" && strings.Contains(path, "://")
	noFile := path == "" || path == "-"
	if noFile || named || url || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// folderOf returns the directory, absolute if the working directory is known.
func folderOf(name string) string {
	if whole, err := filepath.Abs(name); err == nil {
		name = whole
	}
	return filepath.Dir(name)
}
