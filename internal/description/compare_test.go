// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestCompare checks the differences that callers need to know: a newly
// required input, a removed input and a removed output are breaking; nothing
// else is.
func TestCompare(t *testing.T) {
	before := artifact.DescribedModule{
		Inputs: json.RawMessage(`{"properties":{
			"cidr":{"type":["string","null"],"x-okara-type":"string","default":"10.0.0.0/8"},
			"name":{"x-okara-type":"string"},
			"old":{"default":null},
			"zones":{"x-okara-type":"list(string)","default":["a","b"]}},"required":["name"]}`),
		InputOrder: []string{"cidr", "name", "old", "zones"},
		Outputs:    []artifact.DescribedOutput{{Name: "id"}, {Name: "arn"}},
		Resources:  []artifact.DescribedResource{{Mode: "managed", Type: "aws_vpc", Name: "main"}},
	}
	now := artifact.DescribedModule{
		Inputs: json.RawMessage(`{"properties":{
			"cidr":{"x-okara-type":"string"},
			"extra":{"x-okara-type":"number","writeOnly":true,"default":1},
			"name":{"x-okara-type":"string"},
			"zones":{"x-okara-type":"list(string)","default":["a"]}},"required":["cidr","name"]}`),
		InputOrder: []string{"cidr", "extra", "name", "zones"},
		Outputs:    []artifact.DescribedOutput{{Name: "id", Sensitive: true}},
		Resources:  []artifact.DescribedResource{{Mode: "data", Type: "aws_vpc", Name: "main"}},
	}
	want := []description.Difference{
		{What: "input", Name: "cidr", Change: description.Changed, Detail: `string, default "10.0.0.0/8" → string, required`, Breaking: true},
		{What: "input", Name: "extra", Change: description.Added, Detail: "number, default 1, sensitive"},
		{What: "input", Name: "old", Change: description.Removed, Breaking: true},
		{What: "input", Name: "zones", Change: description.Changed, Detail: `list(string), default ["a","b"] → list(string), default ["a"]`},
		{What: "output", Name: "arn", Change: description.Removed, Breaking: true},
		{What: "output", Name: "id", Change: description.Changed, Detail: " → sensitive"},
		{What: "resource", Name: "aws_vpc.main", Change: description.Removed},
		{What: "data source", Name: "aws_vpc.main", Change: description.Added},
	}
	must.Match(t, "value", description.Compare(before, now), want)
	commented := now
	commented.Inputs = bytes.ReplaceAll(now.Inputs, []byte(`"list(string)"`), []byte(`"list( # one \" of\n  /* all */ string)"`))
	if same := description.Compare(now, commented); len(same) != 0 {
		t.Errorf("a comment in a type: %v", same)
	}
	if same := description.Compare(now, now); len(same) != 0 {
		t.Errorf("a version differs from itself: %v", same)
	}
}
