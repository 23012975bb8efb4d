// A fence: these programs are not in the ./... of Berth's module. node-image/build makes modules of its own for those that
// need others' code; the rest needs the standard library only.
module berth.dev/berth/hack/kind

go 1.26.0
