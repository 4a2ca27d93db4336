/* Stub of Upreel's programs for the setup trial (tests/trials/packaging), which compiles it twice.
 *
 *   upreel-cli              prints its version
 *   upreel --write FILE     writes its version
 *   upreel --sleep SECONDS  runs for this time
 *   upreel --hold FILE      opens FILE without sharing until the process is killed
 *   upreel --window         opens a window and ends when it is closed
 */
#include <stdio.h>
#include <windows.h>

static LRESULT CALLBACK on_message(HWND window, UINT message, WPARAM first, LPARAM second)
{
    if (message == WM_DESTROY)
        PostQuitMessage(0);
    return DefWindowProcW(window, message, first, second);
}

static int open_window(HINSTANCE program)
{
    WNDCLASSW kind = {.lpfnWndProc = on_message, .hInstance = program, .lpszClassName = L"Stub"};
    MSG message;
    RegisterClassW(&kind);
    if (!CreateWindowExW(0, L"Stub", L"Upreel", WS_OVERLAPPEDWINDOW | WS_VISIBLE, 0, 0, 300, 200,
                         NULL, NULL, program, NULL))
        return 1;
    while (GetMessageW(&message, NULL, 0, 0) > 0)
        DispatchMessageW(&message);
    return 0;
}

static int write_version(const wchar_t *name)
{
    FILE *file = _wfopen(name, L"w");
    if (!file)
        return 1;
    fputs(VERSION, file);
    return fclose(file);
}

int wmain(int count, wchar_t **arguments)
{
    if (count == 2 && !wcscmp(arguments[1], L"--window"))
        return open_window(GetModuleHandleW(NULL));
    if (count == 3 && !wcscmp(arguments[1], L"--write"))
        return write_version(arguments[2]);
    if (count == 3 && !wcscmp(arguments[1], L"--sleep"))
        Sleep(1000 * (DWORD)_wtoi(arguments[2]));
    else if (count == 3 && !wcscmp(arguments[1], L"--hold")) {
        if (CreateFileW(arguments[2], GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL) ==
            INVALID_HANDLE_VALUE)
            return 1;
        Sleep(INFINITE);
    } else
        puts(VERSION);
    return 0;
}
