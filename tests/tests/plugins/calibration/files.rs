//! Data sets as users have them: folders of images and arrays, files of many samples, and what is wrong with them.

use std::path::Path;

use byoc_plugin_api::DType;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};
use image::{ImageFormat, Rgb, RgbImage};

use super::data::{compile, observed, regions};

/// `y = relu(x)` of an image of 2 by 3.
fn on_images(channels: i64) -> Model {
    let shape = [1, channels, 2, 3];
    Model::default().input("x", Type::Float, &shape).node("Relu", &["x"], &["y"]).output("y", Type::Float, &shape)
}

/// A folder with such a model and an empty folder `data`.
fn bench(model: Model) -> Folder {
    let folder = Folder::empty();
    folder.write("model.onnx", model.finish());
    std::fs::create_dir(folder.path().join("data")).expect("the folder is ours");
    folder
}

/// A picture whose red is `red`, whose green is 100 and whose blue is 150.
fn picture(folder: &Folder, name: &str, (width, height): (u32, u32), red: u8) {
    let picture = RgbImage::from_pixel(width, height, Rgb([red, 100, 150]));
    let format = ImageFormat::from_path(Path::new(name)).expect("a known ending");
    picture.save_with_format(folder.path().join(name), format).expect("the folder is ours");
}

#[test]
fn images_are_planes_of_normalised_colours() {
    let folder = bench(on_images(3));
    picture(&folder, "data/a.png", (3, 2), 50);
    picture(&folder, "data/b.BMP", (3, 2), 200);
    folder.write("data/readme.txt", "no sample");
    std::fs::create_dir(folder.path().join("data/more.png")).expect("the folder is ours");
    compile(&folder, &["--dataset", "data"]).success();
    let region = regions(&folder).remove(0);
    let x = observed(&region, "x");
    // The whole range of pixels, though no pixel is black or white.
    assert_eq!((x.min, x.max), (0.0, 1.0));
    let part = |pixel: f64| (pixel / 255.0 * 2048.0) as usize;
    let filled: Vec<_> =
        (0..2048).filter(|&part| x.histogram[part] > 0).map(|part| (part, x.histogram[part])).collect();
    assert_eq!(filled, [(part(50.0), 6), (part(100.0), 12), (part(150.0), 12), (part(200.0), 6)]);
    // What is computed from it is as it was seen.
    let y = observed(&region, "y");
    assert_eq!((y.min, y.max), (50.0 / 255.0, 200.0 / 255.0));
    let flags = ["--dataset", "data", "--input-mean", "0.5,0.25,0", "--input-std", "0.25"];
    compile(&folder, &flags).success();
    let region = regions(&folder).remove(0);
    let x = observed(&region, "x");
    assert_eq!((x.min, x.max), (-2.0, 4.0));
    assert_eq!(observed(&region, "y").max, 150.0 / 255.0 / 0.25);
    assert_eq!(observed(&region, "y").min, 0.0, "the red of 50 is below its mean");
}

#[test]
fn grey_models_take_colours_and_arrays_join_images() {
    let folder = bench(on_images(1));
    let grey = RgbImage::from_pixel(3, 2, Rgb([51; 3]));
    grey.save(folder.path().join("data/grey.png")).expect("the folder is ours");
    npz::write(&folder.path().join("data/ones.npz"), &[("x", &Tensor::f32(&[1, 2, 3], &[3.0; 6]))]);
    compile(&folder, &["--dataset", "data"]).success();
    let region = regions(&folder).remove(0);
    let (x, y) = (observed(&region, "x"), observed(&region, "y"));
    assert_eq!((x.min, x.max, y.min, y.max), (0.0, 3.0, 51.0 / 255.0, 3.0));
}

#[test]
fn images_of_another_size_are_stretched_with_a_warning() {
    let folder = bench(on_images(3));
    picture(&folder, "data/a.png", (6, 8), 50);
    picture(&folder, "data/b.jpg", (3, 2), 50);
    let outcome = compile(&folder, &["--dataset", "data"]);
    outcome.success();
    assert_eq!(
        outcome.stderr,
        "warning: [B701] 1 of 2 images in 'data' are not 3 wide and 2 high: they are stretched with a bilinear filter\n  \
         hint: Bring them to that size as your training did for the closest ranges\n"
    );
    // One colour stays one, and a JPEG of one colour is off by little.
    let region = regions(&folder).remove(0);
    let y = observed(&region, "y");
    assert!((y.min * 255.0 - 50.0).abs() < 3.0 && (y.max * 255.0 - 150.0).abs() < 3.0, "{} {}", y.min, y.max);
    assert_eq!(y.histogram.iter().sum::<u64>(), 36);
}

/// The elements of `x` over all samples.
fn range(folder: &Folder, dataset: &str) -> (f32, f32, u64) {
    compile(folder, &["--dataset", dataset]).success();
    let region = regions(folder).remove(0);
    let x = observed(&region, "x");
    (x.min, x.max, x.histogram.iter().sum())
}

#[test]
fn samples_may_lack_the_leading_one() {
    let folder = bench(on_images(1));
    let elements: Vec<f32> = (0..12).map(|i| i as f32).collect();
    for shape in [&[2, 1, 2, 3][..], &[2, 1, 1, 2, 3]] {
        npz::write(&folder.path().join("many.npz"), &[("x", &Tensor::f32(shape, &elements))]);
        assert_eq!(range(&folder, "many.npz"), (0.0, 11.0, 12), "{shape:?}");
    }
    for (file, shape) in [("data/a.npz", &[1, 1, 2, 3][..]), ("data/b.npz", &[1, 2, 3])] {
        npz::write(&folder.path().join(file), &[("x", &Tensor::f32(shape, &elements[..6]))]);
    }
    assert_eq!(range(&folder, "data"), (0.0, 5.0, 12));
}

#[test]
fn a_file_of_one_array_is_for_the_only_input() {
    let folder = bench(on_images(1));
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 2, 3), }\n";
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend((0..12).flat_map(|i| (i as f32 / 2.0).to_le_bytes()));
    folder.write("many.npy", &file);
    assert_eq!(range(&folder, "many.npy"), (0.0, 5.5, 12));
    // One sample of a folder has one of them.
    folder.write("data/one.npy", &file);
    compile(&folder, &["--dataset", "data"]).fails(
        2,
        "error: [B701] 'data/one.npy': the array for input 'x' has shape [2,1,2,3], the model takes [1,1,2,3]\n  hint: Its \
         shape must be [1,1,2,3] or [1,2,3]",
    );
}

/// `y = a + b`.
fn two_inputs() -> Model {
    Model::default()
        .input("left", Type::Float, &[1, 2])
        .input("right", Type::Float, &[1, 2])
        .node("Add", &["left", "right"], &["y"])
        .output("y", Type::Float, &[1, 2])
}

#[test]
fn data_that_does_not_fit_is_told_with_a_remedy() {
    let pair = |count: i64| Tensor::f32(&[count, 2], &vec![1.0; count as usize * 2]);
    let bytes = Tensor::new(DType::U8, vec![3, 2], vec![0; 6]);
    let cases: [(&[(&str, &Tensor)], &str); 6] = [
        (
            &[("left", &pair(3))],
            "'data.npz' has no array for input 'right'\n  hint: Arrays go by the inputs' names; there is left",
        ),
        (
            &[("left", &pair(3)), ("rihgt", &pair(3))],
            "'data.npz' has no array for input 'right'\n  hint: Is it 'rihgt'? Arrays go by the inputs' names; there is \
             left, rihgt",
        ),
        (
            &[("left", &pair(3)), ("right", &pair(2))],
            "'data.npz' has 3 samples of input 'left' and 2 of 'right'\n  hint: A sample is a tensor for each input",
        ),
        (
            &[("left", &pair(3)), ("right", &Tensor::f32(&[2, 3], &[0.0; 6]))],
            "'data.npz': the array for input 'right' has shape [2,3], the model takes [1,2]\n  hint: Its shape must be \
             [N,1,2] or [N,2] for N samples",
        ),
        (
            &[("left", &pair(3)), ("right", &bytes)],
            "'data.npz': the array for input 'right' is u8, the model takes f32\n  hint: Convert it with NumPy's astype('float32')",
        ),
        (&[("left", &pair(0)), ("right", &pair(0))], "the data set 'data.npz' has no samples"),
    ];
    let folder = bench(two_inputs());
    for (arrays, message) in cases {
        npz::write(&folder.path().join("data.npz"), arrays);
        compile(&folder, &["--dataset", "data.npz"]).fails(2, &format!("error: [B701] {message}"));
    }
    folder.write("data.npy", "");
    folder.write("data.bin", "");
    folder.write("broken.npz", "PK");
    let empty = "the data set 'data' has no samples\n  hint: A sample is a file that ends in .png, .jpg, .jpeg, .bmp, .npy \
                 or .npz; folders in it are not searched";
    let cases = [
        ("data", empty),
        (
            "data.npy",
            "'data.npy' holds one array, and the inputs are left, right\n  hint: Use .npz files with an array for each input",
        ),
        (
            "data.bin",
            "the data set 'data.bin' is not a folder, .npz or .npy file\n  hint: Put single samples, such as images, into a \
             folder",
        ),
    ];
    for (dataset, message) in cases {
        compile(&folder, &["--dataset", dataset]).fails(2, &format!("error: [B701] {message}"));
    }
    compile(&folder, &["--dataset", "nowhere"])
        .fails(1, "error: [B601] cannot open 'nowhere': No such file or directory (os error 2)");
    assert!(!places::list(folder.path()).contains(&"model.byoc".to_owned()), "nothing is written");
}

#[test]
fn images_that_do_not_fit_are_told_with_a_remedy() {
    let folder = bench(two_inputs());
    picture(&folder, "data/a.png", (3, 2), 50);
    compile(&folder, &["--dataset", "data"]).fails(
        2,
        "error: [B701] 'data/a.png' is an image, which the model does not take: left: f32[1,2], right: f32[1,2]\n  hint: \
         Images are for one input f32[1,3,H,W] or f32[1,1,H,W], or the same of u8; use .npy or .npz files for others",
    );
    folder.write("model.onnx", on_images(3).finish());
    compile(&folder, &["--dataset", "data", "--input-mean", "0.5,0.5"]).fails(
        2,
        "error: [B901] --input-mean has 2 numbers, and input 'x' has 3 channels\n  hint: Give one number, or one a channel",
    );
    folder.write("data/b.png", "no image");
    compile(&folder, &["--dataset", "data"]).fails(
        2,
        "error: [B701] 'data/b.png' cannot be read as an image: it is a text file\n  hint: \
         Leave it out, or write it again",
    );
    let half = places::read(&folder.path().join("data/a.png"));
    folder.write("data/b.png", &half[..half.len() / 2]);
    let outcome = compile(&folder, &["--dataset", "data"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.starts_with("error: [B701] 'data/b.png' cannot be read as an image: "),
        "{}",
        outcome.stderr
    );
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[1, 3, 2, 3], &[0.0; 18]))]);
    compile(&folder, &["--dataset", "data.npz", "--input-std", "2"]).fails(
        2,
        "error: [B901] --input-mean and --input-std are for images, and the data set 'data.npz' has none\n  hint: Leave them \
         out: arrays are taken as they are",
    );
}

#[test]
fn numbers_that_are_none_are_refused() {
    let folder = bench(on_images(3));
    for (flag, text, cause) in [
        ("--input-std", "0", "expected a number above 0, such as 0.229"),
        ("--input-std", "-1", "expected a number above 0, such as 0.229"),
        ("--input-mean", "nan", "expected a number, such as 0.485"),
    ] {
        let outcome = compile(&folder, &["--dataset", "data", flag, text]);
        assert_eq!(outcome.code, Some(2));
        let expected = format!("error: [B901] '{text}' is not a value of {flag} <");
        assert!(outcome.stderr.starts_with(&expected) && outcome.stderr.contains(cause), "{}", outcome.stderr);
    }
}
